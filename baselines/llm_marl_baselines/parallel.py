"""Several processes that train one run together: which one this is, and all that they tell each other.

A launcher (``accelerate launch``, ``torchrun``) starts them; accelerate connects them by torch.distributed. Where there
is one process, everything here returns at once, and neither of the two is imported.

Every process holds all of a batch and the same weights; it plays, and computes gradients for, its own block of it. An
error belongs to all: what goes wrong in one process is raised in each, in place of what it waited for, so that none
waits for ever and all end alike.
"""

from __future__ import annotations

import atexit
import os
import pickle
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from llm_marl_envs.errors import ConfigError, LlmMarlError

from .errors import ProcessError, ProcessLostError
from .launchers import num_processes

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

# The longest wait for the slowest process. One that has died is noticed at once, by its closed connection.
PATIENCE = timedelta(hours=2)


@dataclass
class _Group:
    """The processes of this run: how many, which of them this is, and its device."""

    size: int
    index: int
    device: torch.device
    pid: int = field(default_factory=os.getpid)
    raised: BaseException | None = None  # the newest error that all of them know of
    ended: bool = False  # nothing can be said any more
    accompany: Callable[[Any], None] | None = None  # does what another process has announced


_group: _Group | None = None


def start() -> None:
    """Connect to the other processes, if a launcher started several. To be called before any other work, and as often
    as one likes.

    Raises:
        ConfigError: see :func:`~llm_marl_baselines.launchers.num_processes`.
    """
    global _group
    if _group is not None or num_processes(os.environ) == 1:
        return
    import torch
    from accelerate import PartialState

    on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true" or not torch.cuda.is_available()
    # Gradients are added where they are; everything else is exchanged between CPUs.
    state = PartialState(cpu=on_cpu, timeout=PATIENCE, **({} if on_cpu else {"backend": "cuda:nccl,cpu:gloo"}))
    if state.num_processes == 1:
        raise ConfigError("accelerate found no group of processes to join: LOCAL_RANK is not set. Use a launcher.")
    _group = _Group(state.num_processes, state.process_index, state.device)
    atexit.register(finish)
    if not is_main():
        warnings.simplefilter("ignore")  # the main process says the same


def size() -> int:
    """How many processes there are."""
    return 1 if _group is None else _group.size


def index() -> int:
    """Which of them this is, from 0."""
    return 0 if _group is None else _group.index


def is_main() -> bool:
    """Whether this is the process that writes logs and checkpoints, and speaks."""
    return index() == 0


def device(name: str) -> str:
    """The device that a setting means: with several processes ``auto`` and ``cuda`` are each process's own."""
    if _group is None or name not in ("auto", "cuda"):
        return name
    if _group.device.type == "cpu":
        return "cpu" if name == "auto" else name
    return str(_group.device)


def block(count: int, number: int | None = None) -> range:
    """Which of ``count`` things are this process's, or process ``number``'s: a block without gaps; the first processes
    get one more where they do not come out even."""
    number = index() if number is None else number
    least, more = divmod(count, size())
    begin = number * least + min(number, more)
    return range(begin, begin + least + (number < more))


# --- telling


def exchange(make: Callable[[], T]) -> list[T]:
    """Call ``make`` on every process and give all results to each, in the order of the processes.

    Raises:
        Exception: what ``make`` raised in one process is raised in all; of several errors that of the first process.
            One that is not of this package is told to others as a ProcessError.
        ProcessLostError: another process has ended.
    """
    if _group is None:
        return [make()]
    try:
        payload = _pickled(make())
    except (Exception, SystemExit) as error:  # none is kept back: it is raised in all processes
        _raise_everywhere(error)
        raise
    return [pickle.loads(told) for told in _agree("value", payload)]


def from_main(make: Callable[[], T]) -> T:
    """Call ``make`` in the main process only, and give its result, or its error, to all."""
    return exchange(lambda: make() if is_main() else None)[0]  # type: ignore[return-value]


@contextmanager
def failing_together() -> Iterator[None]:
    """An error that leaves this block in one process is raised in all, at the next thing that they wait for. Around
    everything that processes do together."""
    try:
        yield
    except (Exception, SystemExit) as error:
        _raise_everywhere(error)
        raise
    except BaseException:  # a second Ctrl-C leaves at once
        if _group is not None:
            _group.ended = True
        raise


def check_equal(facts: Callable[[], Mapping[str, Any]]) -> None:
    """Raise ConfigError, in all processes, where one of them has other facts than the main process."""
    if _group is None:
        return
    for number, told in enumerate(given := exchange(lambda: dict(facts()))):
        names = [*given[0], *(name for name in told if name not in given[0])]
        if different := [name for name in names if given[0].get(name) != told.get(name)]:
            name = different[0]
            raise ConfigError(
                f"Process {number} differs from process 0 in: {', '.join(different)} ({name} is "
                f"{told.get(name)!r} there, and {given[0].get(name)!r} in process 0). Start all processes with the "
                "same command, the same files and the same releases."
            )


def finish() -> None:
    """Wait until all processes are done, so that none is taken for dead while another still writes. Called when the
    interpreter ends."""
    global _group
    if _group is None or _group.pid != os.getpid():  # not in a child that was forked from it
        return
    import torch

    try:
        # Errors that others tell of at their end are theirs.
        while not _group.ended and any(kind != "end" for kind, _ in _gather("end", b"")):
            pass
    except ProcessLostError:
        pass
    _group = None
    torch.distributed.destroy_process_group()


# --- doing together


def announce(step: Any) -> None:
    """Say what all processes have to do together next, and wait until it is the turn of this. What others announce is
    done beside them meanwhile (:func:`accompany_with`), here and wherever this process waits for the others.

    Raises:
        Exception: as :func:`exchange`.
    """
    if _group is not None:
        _agree("step", pickle.dumps(step))


def accompany_with(act: Callable[[Any], None]) -> None:
    """What does a step that another process has announced."""
    if _group is not None:
        _group.accompany = act


def sum_gradients(parameters: Mapping[str, Sequence[torch.nn.Parameter]]) -> None:
    """Replace the gradients of all learners by their sums over the processes.

    A weight without a gradient in one process counts as 0 there; one that has none in any process keeps none.
    """
    if _group is None:
        return
    import torch

    # Said first: an error of another process is raised here, and no sum is begun without it.
    found = exchange(lambda: {name: [p.grad is not None for p in ps] for name, ps in parameters.items()})
    for name, ps in parameters.items():
        used = [p for p, *has in zip(ps, *(masks[name] for masks in found), strict=True) if any(has)]
        for dtype in dict.fromkeys(p.dtype for p in used):
            members = [p for p in used if p.dtype == dtype]
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in members])
            with _noticing_the_lost():
                torch.distributed.all_reduce(flat)
            for p, total in zip(members, flat.split([p.numel() for p in members]), strict=True):
                p.grad = total.view_as(p)


def checksum(parameters: Sequence[torch.nn.Parameter]) -> int:
    """A number that weights share which are bit for bit the same."""
    import torch

    found = 0
    for p in parameters:
        found = zlib.crc32(p.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy(), found)
    return found


# --- inside


def _raise_everywhere(error: BaseException) -> None:
    """Tell the others of an error, unless they know it. Raises that of the first process that has one."""
    if _group is None or _group.ended or error is _group.raised:
        return
    _agree("error", pickle.dumps(_telling(error)), error)


def _agree(kind: str, payload: bytes, own: BaseException | None = None) -> list[bytes]:
    """Say something of a kind until all say something of that kind; gives what they said. For a step: until it is the
    first of those that were announced."""
    assert _group is not None
    while True:
        told = _gather(kind, payload)
        for number, (what, found) in enumerate(told):
            if what == "error":
                _group.raised = own if own is not None and number == _group.index else pickle.loads(found)
                raise _group.raised
        if ended := [number for number, (what, _) in enumerate(told) if what == "end"]:
            raise _lost(f"process {ended[0]} has come to its end")
        steps = [found for what, found in told if what == "step"]
        if not steps or (kind == "step" and payload == steps[0]):
            return [found for _, found in told]
        assert _group.accompany is not None
        _group.accompany(pickle.loads(steps[0]))


def _gather(kind: str, payload: bytes) -> list[tuple[str, bytes]]:
    """What all processes say, in their order."""
    assert _group is not None
    import torch

    if _group.ended:
        raise _lost("it was lost before")
    told: list[Any] = [None] * _group.size
    with _noticing_the_lost():
        torch.distributed.all_gather_object(told, (kind, payload))
    return told


@contextmanager
def _noticing_the_lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # a closed connection, or nothing said in all that time
        raise _lost(str(error).splitlines()[0]) from error


def _lost(reason: str) -> ProcessLostError:
    assert _group is not None
    _group.ended = True
    _group.raised = ProcessLostError(
        f"Process {_group.index} lost the others: {reason}. What ended them is in their own output, or in the "
        "system's log where memory ran out. Go on with --resume."
    )
    return _group.raised


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"With several processes, each tells the others what it played, and this cannot be told: {error}. Keep to "
            "plain values in an environment's infos, or train in one process."
        ) from error


def _telling(error: BaseException) -> BaseException:
    """The error as others get it."""
    if isinstance(error, (LlmMarlError, OSError, SystemExit)):
        try:
            twin = pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 -- whatever a class of others does when it is copied
            twin = None
        if type(twin) is type(error) and str(twin) == str(error):
            return error
    return ProcessError(f"Process {index()} failed: {type(error).__name__}: {error}. See its own output.")

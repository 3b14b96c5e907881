"""The process that holds a program: one check, then it is killed. Everything it says may be a lie.

It was forked from the zygote, so that it starts within a millisecond. It gives up what a program does not need, waits
for a program (which the ``parser`` has read and compiled), executes it and answers calls, until somebody kills it.

Messages to the child are marshalled: ``(main, helpers, probe)`` (names, and None, or for the self-test what ``probing``
has to know), a list with the code of preamble, helpers and main, and a list of calls, ``(id, args, kwargs)``; then one
call each. From it, in JSON: ``{"loaded": None | error, "answers"}``, with answers to the first or to all calls of the
list, each ``{"id", "value" | "error" | "unsupported", "called": [helpers]}``; then such an answer to each further call.
An error is ``{"type", "crosses", "message", "part", "line"}``.
"""

from __future__ import annotations

import builtins
import functools
import io
import marshal
import os
import resource
import signal
import sys
import types
from time import monotonic  # whatever a program does to the module
from typing import Any

from . import probing
from .channel import Channel, ClosedError
from .codec import ADDRESS, Decoder, Encoder, UnsupportedValueError
from .seccomp import Filter

CHANNEL_FD = 3
MESSAGE_BYTES = 1 << 26  # of what the trusted side sends: arguments may be larger than what a program may answer
MESSAGE_CHARACTERS = 300  # of an exception's text
PATIENCE_SECONDS = 0.02  # for which answers are held back, so that more may go with them
MODULE = "solution"  # not "__main__": what stands under that condition is no part of a solution
RECURSION_LIMIT = 2_000  # twice Python's own, since a counted helper takes two frames a call

# Exceptions that cross as themselves, so that a test can expect them. All others become CandidateError.
CROSSING = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, (Warning, AssertionError))
    if kind is not Exception
}


class Child:
    """What is ready before a process is forked: all that is done here is not done in every child, where each page of
    memory that is written to, if only to count a reference, costs a page fault and a copy.

    Args:
        limits: fields of ``Limits``.
        filter_: of system calls; None under ``unsafe``.
    """

    def __init__(self, limits: dict[str, Any], filter_: Filter | None):
        self._filter = filter_
        # The checker kills long before; this is for when it cannot.
        self._cpu_seconds = int(limits["total_cpu_seconds"]) + 2
        self.program = Program(limits)
        self.channel = Channel(CHANNEL_FD, MESSAGE_BYTES, trusted=True)

    def serve(self, fd: int) -> None:
        """Be the child: executes one program. Returns when the checker is gone.

        Args:
            fd: socket to the checker.
        """
        confine(fd, self._filter, self._cpu_seconds)
        try:
            self.program.serve(self.channel)
        except ClosedError:
            return


def prepare(limits: dict[str, Any]) -> None:
    """What processes inherit from the zygote."""
    for what, most in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (most, most))
    import random  # here, after zygote.preload

    sys.setrecursionlimit(RECURSION_LIMIT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    random.seed(0)
    # What a program prints is dropped.
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), _Sink(), _Sink()
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]


def confine(fd: int, filter_: Filter | None, cpu_seconds: int | None) -> None:
    """Give up all but the socket, memory and time."""
    os.dup2(fd, CHANNEL_FD, False)
    os.closerange(CHANNEL_FD + 1, 1 << 20)
    os.dup2(1, 2)  # both are /dev/null
    if cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if filter_ is not None:
        filter_.load(signal.SIGKILL.value)


class _Sink(io.TextIOBase):
    """Where a program's output goes."""

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


class Program:
    """Executes a program and answers calls of it.

    Args:
        limits: fields of ``Limits``.
    """

    def __init__(self, limits: dict[str, Any]):
        self._encoder = Encoder(limits["items"], limits["depth"])
        self._decoder = Decoder(1 << 30, 1_000)  # arguments are trusted
        self._called: set[str] = set()

    def serve(self, channel: Channel) -> None:
        """Do what the other side says.

        Raises:
            ClosedError: the other side is gone.
        """
        main, helpers, probe = channel.receive()
        if probe is not None:
            channel.send({"escapes": probing.escapes(probe)})
            return
        codes, calls = channel.receive(), channel.receive()
        module = types.ModuleType(MODULE)
        sys.modules[MODULE] = module
        space = vars(module)
        error = self._load(space, main, helpers, codes)
        function = space.get(main)
        if error is None and not callable(function):
            error = {"type": "missing", "message": f"no function {main!r} is defined"}
        # All in one message, unless it takes long: for each message both sides would wake up once.
        late = monotonic() + PATIENCE_SECONDS
        answers: list[dict[str, Any]] = []
        while error is None and len(answers) < len(calls) and monotonic() < late:
            answers.append(self._answer(function, *calls[len(answers)]))
        channel.send({"loaded": error, "answers": answers})
        for call in calls[len(answers) :]:
            channel.send(self._answer(function, *call))
        while True:
            channel.send(self._answer(function, *channel.receive()))

    def _load(
        self, space: dict[str, Any], main: str, helpers: list[str], codes: list[bytes | None]
    ) -> dict[str, Any] | None:
        """Execute the parts, one after another, in one namespace; returns what went wrong in the last one."""
        for name, code in zip(["", *helpers, main], codes, strict=True):
            error = None
            if code is not None:
                try:
                    exec(marshal.loads(code), space)
                except BaseException as raised:  # SystemExit and the like come from the program, too
                    error = _described(raised)  # of a helper: it fails where it is used
            if name in helpers and callable(space.get(name)):
                space[name] = self._counted(space[name], name)
        return error

    def _counted(self, function: Any, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._called.add(name)
            return function(*args, **kwargs)

        try:
            return functools.wraps(function)(call)
        except BaseException:  # an object whose attributes raise
            return call

    def _answer(self, function: Any, number: int, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        decode = self._decoder.decode
        args = [decode(value) for value in args]
        kwargs = {name: decode(value) for name, value in kwargs.items()}
        self._called.clear()
        answer: dict[str, Any] = {"id": number}
        try:
            answer["value"] = self._encoder.encode(function(*args, **kwargs))
        except UnsupportedValueError as error:
            answer["unsupported"] = str(error)
        except BaseException as error:
            answer["error"] = _described(error)
        answer["called"] = sorted(self._called)
        return answer


def _described(error: BaseException) -> dict[str, Any]:
    """An exception as data: the builtin type it crosses as, its text, and where in which part it was raised."""
    kind = next((base.__name__ for base in type(error).__mro__ if CROSSING.get(base.__name__) is base), "")
    try:
        message = str(error)[:MESSAGE_CHARACTERS]
    except BaseException:
        message = ""
    described: dict[str, Any] = {
        "type": str(type(error).__name__)[:80],
        "crosses": kind,
        "message": ADDRESS.sub("", message),
    }
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith("<") and not name.startswith("<frozen"):
            described |= {"line": trace.tb_lineno, "part": name.strip("<>")}
        trace = trace.tb_next
    return described

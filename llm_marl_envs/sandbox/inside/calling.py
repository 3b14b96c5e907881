"""One program: has it read, gives it to a process, calls it, and makes the process anew after a call that ended it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import zygote
from .channel import framed, pack_trusted
from .child import CROSSING, MESSAGE_BYTES
from .codec import Decoder, Encoder, ProtocolError, UnsupportedValueError
from .parser import READS
from .processes import Budget, InfrastructureError, Nursery, Process
from .tracking import REPR_CHARACTERS, CandidateError, Lost

# What a process may take to load a program and make the first calls that were sent ahead, in processor time and by the
# clock. Where one takes longer, or dies, another is asked for one call after another, so that it is known which it was.
HASTE_SECONDS = 0.1
HASTE_WALL_SECONDS = 0.5


class Parser:
    """The parser process, as the trusted side sees it: made anew when it was lost, and every now and then."""

    def __init__(self, nursery: Nursery):
        self._nursery = nursery
        self._process: Process | None = None
        self._reads = 0

    def read(self, program: dict[str, Any], budget: Budget) -> tuple[dict[str, Any], bytes]:
        """What ``parser`` says of a program, and the code for a process.

        Raises:
            Lost: it died of the program, or took too long.
        """
        if self._process is None:
            self._process, self._reads = Process(self._nursery, zygote.PARSER, MESSAGE_BYTES), 0
        process, self._process = self._process, None  # kept only if all goes well
        process.before = process.busy
        begun = time.monotonic()
        process.send(pack_trusted(program), budget)
        answer = process.receive(budget), process.receive_bytes(budget)
        process.busy += time.monotonic() - begun
        self._reads += 1
        if self._reads < READS:
            self._process = process
        else:
            process.end()
        return answer


Call = tuple[list[Any], dict[str, Any]]  # encoded arguments, by position and by name


def _encoded(encoder: Encoder, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    return [encoder.encode(value) for value in args], {name: encoder.encode(value) for name, value in kwargs.items()}


@dataclass(frozen=True)
class Predicted:
    """Calls that the tests will make one after another, whatever their results: known before the first is made.

    Attributes:
        calls: the calls in order.
        message: all of them in one packed message, with the ids 1, 2, ...
    """

    calls: Sequence[Call]
    message: bytes

    @classmethod
    def of(cls, calls: Sequence[tuple[list[Any], dict[str, Any]]] | None) -> Predicted | None:
        """From the arguments of all calls; None where they are not known."""
        if calls is None:
            return None
        encoder = _argument_encoder()
        encoded = [_encoded(encoder, args, kwargs) for args, kwargs in calls]
        return cls(encoded, pack_trusted([(number, *call) for number, call in enumerate(encoded, start=1)]))


NOTHING_PREDICTED = pack_trusted([])


def _argument_encoder() -> Encoder:
    """Arguments come from trusted tests: their size is not limited."""
    return Encoder(1 << 30, 1_000)


class Run:
    """One check's program and the process that holds it.

    Args:
        nursery, parser: where processes come from.
        limits: fields of ``Limits``.
        program: names and texts.
        predicted: calls to be sent ahead, so that both sides need not wait for each other each time.
    """

    def __init__(
        self,
        nursery: Nursery,
        parser: Parser,
        limits: dict[str, Any],
        program: dict[str, Any],
        predicted: Predicted | None,
    ):
        self._nursery = nursery
        self._parser = parser
        self._limits = limits
        self._program = program
        self._budget = Budget(limits)
        self._helpers = [name for name, _ in program["helpers"]]
        self._encoder = _argument_encoder()
        self._decoder = Decoder(limits["items"], limits["depth"])
        self._restarts = limits["restarts"]
        self._process: Process | None = None
        self._given = 0.0  # when the process got its program
        self._job = b""
        self._predicted = predicted
        self._ahead: deque[Call] = deque()  # calls that were sent and not yet asked for
        self._answers: deque[Any] = deque()  # to the first of them
        self._calls = 0
        self.structure: Any = None
        self.is_void = False  # whether infrastructure failed, even if the tests went on
        self.called: set[str] = set()  # helpers, since it was last cleared
        self.last: Any = None  # what the last call returned

    def load(self) -> dict[str, Any] | None:
        """Have the program read, and give it to a process; returns what went wrong, ``{"kind", "message"}``."""
        try:
            read, code = self._parser.read(self._program, self._budget)
        except Lost as lost:
            return {"kind": lost.outcome, "message": lost.message}
        self.structure = read.get("structure")
        if read.get("error") is not None:
            return _load_error(read["error"])
        main, _ = self._program["main"]
        self._job = pack_trusted((main, self._helpers, None)) + framed(code)
        if self._predicted is not None:
            begun = time.monotonic()
            try:
                return self._make_ahead(self._predicted)
            except Lost:
                self._budget.started += time.monotonic() - begun  # that costs no budget
        return self._start()

    def _make_ahead(self, predicted: Predicted) -> dict[str, Any] | None:
        """Have a process load the program and make all calls, the answers to the first of which come together; returns
        what went wrong with loading.

        Raises:
            Lost: something is unusual. It is left to another process, which is asked for one thing after another.
        """
        limits = self._limits
        haste = Budget(
            limits
            | {name: min(limits[name], HASTE_SECONDS) for name in ("cpu_seconds", "total_cpu_seconds")}
            | {"wall_seconds": min(limits["wall_seconds"], HASTE_WALL_SECONDS)}
        )
        process = self._new_process()
        process.send(self._job + predicted.message, haste)
        message = process.receive(haste)
        error, answers = message.get("loaded", ""), message.get("answers")
        if isinstance(error, dict):
            process.end()
            return _load_error(error)
        if error is not None or not isinstance(answers, list) or len(answers) > len(predicted.calls):
            raise process.refuse(haste, "no answers to the calls")
        self._process, self._ahead, self._answers = process, deque(predicted.calls), deque(answers)
        return None

    def _start(self) -> dict[str, Any] | None:
        """Have a process load the program; returns what went wrong."""
        process = self._new_process()
        try:
            process.send(self._job + NOTHING_PREDICTED, self._budget)
            error = process.receive(self._budget).get("loaded", {})
        except Lost as lost:
            return {"kind": lost.outcome, "message": lost.message}
        if error is not None:
            process.end()
            return _load_error(error)
        self._process = process
        return None

    def _new_process(self) -> Process:
        self._given, self._calls = time.monotonic(), 0
        return Process(self._nursery, zygote.CHILD, self._limits["message_bytes"])

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The entry point, as the tests see it.

        Raises:
            Lost: there is no result, and no exception of the program either.
        """
        try:
            return self._call(args, kwargs)
        except InfrastructureError:
            self.is_void = True
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.last = None
        try:
            call = _encoded(self._encoder, args, kwargs)
        except UnsupportedValueError as error:
            raise Lost("unsupported", f"an argument cannot cross: {error}") from error
        if self._ahead and self._ahead[0] != call:
            # The tests went another way than was foreseen: a process that has not been called too often takes over.
            self.end()
            if self._start() is not None:
                raise Lost("not_run", "the program did not load a second time")
        elif self._process is None and not self._restart():
            raise Lost("not_run", "the budget of the check was spent")
        process = self._process
        assert process is not None
        self._calls += 1
        process.busy = time.monotonic() - self._given
        self._process = None  # until it has answered
        try:
            if self._ahead:
                self._ahead.popleft()
            else:
                process.send(pack_trusted((self._calls, *call)), self._budget)
            answer = self._answers.popleft() if self._answers else process.receive(self._budget)
            try:
                raised = self._read(answer)
            except ProtocolError as error:
                raise process.refuse(self._budget, str(error)) from error
        except Lost:
            self._forget()
            raise
        self._process = process
        if raised is not None:
            raise raised
        return self.last

    def _read(self, answer: Any) -> BaseException | None:
        """Take in an answer: the result becomes ``last``. Returns what the call is to raise."""
        if not isinstance(answer, dict):
            raise ProtocolError("an answer that is no object")
        called = answer.get("called")
        if answer.get("id") != self._calls or not isinstance(called, list):
            raise ProtocolError("an answer to a call that was not made")
        self.called.update(name for name in called if isinstance(name, str) and name in self._helpers)
        if "value" in answer:
            try:
                self.last = self._decoder.decode(answer["value"])
            except UnsupportedValueError as refusal:
                return Lost("unsupported", f"the result cannot cross: {refusal}")
            return None
        if "unsupported" in answer:
            return Lost("unsupported", f"the result cannot cross: {str(answer['unsupported'])[:REPR_CHARACTERS]}")
        error = answer.get("error")
        if not isinstance(error, dict):
            raise ProtocolError("an answer without a result")
        text = _error_text(error)
        if error.get("type") == "MemoryError":
            return Lost("memory", text)
        return _make(CROSSING.get(str(error.get("crosses")), CandidateError), text)

    def _restart(self) -> bool:
        if self._restarts == 0 or self._budget.is_used_up:
            return False
        self._restarts -= 1
        return self._start() is None

    def end(self) -> None:
        """Let the process be killed, if there is one."""
        self._forget()
        if self._process is not None:
            self._process.end()
            self._process = None

    def _forget(self) -> None:
        """The calls that were sent ahead: another process has not got them."""
        self._ahead.clear()
        self._answers.clear()


def _load_error(error: Any) -> dict[str, Any]:
    if not isinstance(error, dict):
        return {"kind": "protocol_error", "message": "a report that is no object"}
    if error.get("type") == "missing":
        return {"kind": "missing", "message": str(error.get("message"))[:REPR_CHARACTERS]}
    kind = "syntax_error" if error.get("syntax") is True else "load_error"
    return {"kind": "memory" if error.get("type") == "MemoryError" else kind, "message": _error_text(error)}


def _error_text(error: dict[str, Any]) -> str:
    """``ValueError: bad input (line 3 of aux)``; the program's own words are clipped, since it may say anything."""
    message = str(error.get("message", ""))[:REPR_CHARACTERS]
    text = str(error.get("type"))[:80] + (f": {message}" if message else "")
    line, part = error.get("line"), error.get("part")
    if isinstance(line, int) and 0 < line < 1_000_000 and isinstance(part, str):
        text += f" (line {line} of {part[:80]})"
    return text


def _make(kind: type[Exception], text: str) -> Exception:
    try:
        return kind(text)
    except TypeError:  # a UnicodeDecodeError takes five arguments
        return CandidateError(text)

"""One program: has it read, gives it to a process, calls it, and makes the process anew after a call that ended it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import zygote
from .channel import pack
from .child import CROSSING, MESSAGE_BYTES
from .codec import Decoder, Encoder, ProtocolError, UnsupportedValueError
from .parser import READS
from .processes import Budget, InfrastructureError, Nursery, Process
from .tracking import REPR_CHARACTERS, CandidateError, Lost

# Calls that are sent ahead have to fit into the socket, or both sides could wait for each other.
AHEAD_BYTES = 1 << 15


class Parser:
    """The parser process, as the trusted side sees it: made anew when it was lost, and every now and then."""

    def __init__(self, nursery: Nursery):
        self._nursery = nursery
        self._process: Process | None = None
        self._reads = 0

    def read(self, program: dict[str, Any], budget: Budget) -> dict[str, Any]:
        """What ``parser`` says of a program.

        Raises:
            Lost: it died of the program, or took too long.
        """
        if self._process is None:
            self._process, self._reads = Process(self._nursery, zygote.PARSER, MESSAGE_BYTES), 0
        process, self._process = self._process, None  # kept only if all goes well
        process.before = process.busy
        begun = time.monotonic()
        process.send(pack(program), budget)
        answer = process.receive(budget)
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


def _message(number: int, call: Call) -> bytes:
    return pack({"call": number, "args": call[0], "kwargs": call[1]})


@dataclass(frozen=True)
class Predicted:
    """Calls that the tests will make one after another, whatever their results: known before the first is made.

    Attributes:
        calls: the calls in order.
        messages: all of them as packed messages with the ids 1, 2, ...
    """

    calls: Sequence[Call]
    messages: bytes

    @classmethod
    def of(cls, calls: Sequence[tuple[list[Any], dict[str, Any]]] | None) -> Predicted | None:
        """From the arguments of all calls; None where they are not known, or are too much to be sent at once."""
        if calls is None:
            return None
        encoder = _argument_encoder()
        encoded = [_encoded(encoder, args, kwargs) for args, kwargs in calls]
        messages = b"".join(_message(number, call) for number, call in enumerate(encoded, start=1))
        return cls(encoded, messages) if len(messages) <= AHEAD_BYTES else None


def _argument_encoder() -> Encoder:
    """Arguments come from trusted tests: their size is not limited."""
    return Encoder(1 << 30, 1_000)


class Run:
    """One check's program and the process that holds it.

    Args:
        nursery, parser: where processes come from.
        limits: fields of ``Limits``.
        program: names and texts.
        predicted: calls to be sent ahead, so that the process need not wait for each.
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
        self._calls = 0
        self.structure: Any = None
        self.is_void = False  # whether infrastructure failed, even if the tests went on
        self.called: set[str] = set()  # helpers, since it was last cleared
        self.last: Any = None  # what the last call returned

    def load(self) -> dict[str, Any] | None:
        """Have the program read, and give it to a process; returns what went wrong, ``{"kind", "message"}``."""
        try:
            read = self._parser.read(self._program, self._budget)
        except Lost as lost:
            return {"kind": lost.outcome, "message": lost.message}
        self.structure = read.get("structure")
        if read.get("error") is not None:
            return _load_error(read["error"])
        main, _ = self._program["main"]
        self._job = pack({"main": main, "helpers": self._helpers, "code": read["code"]})
        return self._start(self._predicted)

    def _start(self, predicted: Predicted | None) -> dict[str, Any] | None:
        process = Process(self._nursery, zygote.CHILD, self._limits["message_bytes"])
        self._given, self._calls = time.monotonic(), 0
        try:
            process.send(self._job + (predicted.messages if predicted is not None else b""), self._budget)
            error = process.receive(self._budget).get("loaded", {})
        except Lost as lost:
            return {"kind": lost.outcome, "message": lost.message}
        if error is not None:
            process.end()
            return _load_error(error)
        self._process = process
        self._ahead = deque(predicted.calls if predicted is not None else ())
        return None

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
            if self._start(None) is not None:
                raise Lost("not_run", "the program did not load a second time")
        elif self._process is None and not self._restart():
            raise Lost("not_run", "the budget of the check was spent")
        process = self._process
        assert process is not None
        self._calls += 1
        process.busy = time.monotonic() - self._given
        self._process = None  # until it has answered
        if self._ahead:
            self._ahead.popleft()
        else:
            process.send(_message(self._calls, call), self._budget)
        try:
            answer = process.receive(self._budget)
            try:
                raised = self._read(answer)
            except ProtocolError as error:
                raise process.refuse(self._budget, str(error)) from error
        except Lost:
            self._ahead.clear()
            raise
        self._process = process
        if raised is not None:
            raise raised
        return self.last

    def _read(self, answer: dict[str, Any]) -> BaseException | None:
        """Take in an answer: the result becomes ``last``. Returns what the call is to raise."""
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
        return self._start(None) is None

    def end(self) -> None:
        """Let the process be killed, if there is one."""
        self._ahead.clear()
        if self._process is not None:
            self._process.end()
            self._process = None


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

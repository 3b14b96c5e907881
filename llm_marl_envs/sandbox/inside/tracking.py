"""What became of each test: the split tests report here while they run."""

from __future__ import annotations

from types import CodeType
from typing import Any, Protocol

from .codec import ADDRESS
from .splitting import CAUGHT, TRACKER, Split

REPR_CHARACTERS = 200


class CandidateError(Exception):
    """An exception of the program that is none of Python's own ones."""


class Lost(BaseException):
    """A call that has no result, for a reason (an ``Outcome``) that no test may catch."""

    def __init__(self, outcome: str, message: str = ""):
        super().__init__(outcome, message)
        self.outcome = outcome
        self.message = message


class Caller(Protocol):
    """The program, as the tests see it.

    Attributes:
        called: helpers that were called since it was last cleared.
        last: what the last call returned.
    """

    called: set[str]
    last: Any

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the entry point.

        Raises:
            Lost: there is no result, and no exception of the program either.
        """
        ...


class Tracker:
    """What became of each test; the split tests report to it."""

    def __init__(self, suite: Split, run: Caller, loaded: bool):
        self._suite = suite
        self._run = run
        count = len(suite.sources)
        self._outcome = ["unreached" if loaded else "not_run"] * count
        self._message = [""] * count
        self._called: list[set[str]] = [set() for _ in range(count)]
        self._broken: tuple[str, str] | None = None
        self._lost: Lost | None = None  # a call that a test must not have survived

    def execute(self, reference: CodeType, entry_point: str) -> None:
        """Run all units."""
        own: dict[str, Any] = {"__name__": "tests"}
        try:
            exec(reference, own)
            # A copy: functions of the reference keep their own names, whatever the tests bind.
            space = {**own, "candidate": self._call, entry_point: self._call, TRACKER: self, CAUGHT: (Exception, Lost)}
            exec(self._suite.code, space)
            if self._suite.calls_check:
                space["check"](self._call)
        except Exception as error:  # of the set-up, before any unit
            self._fail("error", f"the tests' own set-up: {_text(error)}")
        except Lost as lost:
            self._fail(lost.outcome, lost.message)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._run.call(*args, **kwargs)
        except Lost as lost:
            self._lost = lost
            raise

    # --- what the units call

    def enter(self, unit: int) -> bool:
        self._lost = None
        if self._broken is not None:
            for test in self._suite.units[unit]:
                self._set(test, *self._broken)
        return self._broken is None

    def begin(self, test: int) -> None:
        self._run.called.clear()
        self._run.last = None
        self._lost = None

    def note(self, test: int, holds: Any) -> None:
        called = set(self._run.called)
        truth = bool(holds)
        self._called[test] |= called
        if self._lost is not None:
            self._set(test, self._lost.outcome, self._lost.message)
        elif truth:
            self._set(test, "passed", "")
        else:
            self._set(test, "failed", f"the last call returned {_short(self._run.last)}")

    def error(self, test: int, error: Exception | Lost) -> None:
        self._called[test] |= self._run.called
        self._set(test, *self._reason(error))

    def broke(self, unit: int, error: Exception | Lost) -> None:
        """A unit ended with an exception."""
        tests = self._suite.units[unit]
        for test in tests:
            self._outcome[test], self._message[test] = self._reason(error)
        if not tests:
            self._broken = self._reason(error)

    # --- results

    def _reason(self, error: Exception | Lost) -> tuple[str, str]:
        error = self._lost or error
        if isinstance(error, Lost):
            return error.outcome, error.message
        return ("failed" if isinstance(error, AssertionError) else "error"), _text(error)

    def _set(self, test: int, outcome: str, message: str) -> None:
        """The first failure stands; a pass replaces nothing but "unreached"."""
        if self._outcome[test] == "unreached" or (self._outcome[test] == "passed" and outcome != "passed"):
            self._outcome[test], self._message[test] = outcome, message

    def _fail(self, outcome: str, message: str) -> None:
        for test in range(len(self._outcome)):
            if self._outcome[test] == "unreached":
                self._outcome[test], self._message[test] = outcome, message

    def all(self) -> list[dict[str, Any]]:
        """Every counted test as data."""
        rows = zip(self._suite.sources, self._outcome, self._message, self._called, strict=True)
        return [
            {"source": source, "outcome": outcome, "message": message, "called": sorted(called)}
            for source, outcome, message, called in rows
        ]


def _text(error: BaseException) -> str:
    """Of an exception on the trusted side. The program's own ones carry type and place in their text already."""
    text = ADDRESS.sub("", str(error.args[0]) if error.args else "")[: 2 * REPR_CHARACTERS]
    name = type(error).__name__
    return text if text.startswith(name) or isinstance(error, CandidateError) else f"{name}: {text}" if text else name


def _short(value: Any) -> str:
    text = ADDRESS.sub("", repr(value))
    return text if len(text) <= REPR_CHARACTERS else text[:REPR_CHARACTERS] + "..."

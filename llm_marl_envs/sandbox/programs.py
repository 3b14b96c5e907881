"""What is checked, and what comes out of it: plain data, the same on every side of the sandbox.

A :class:`Program` is what the agents wrote. A :class:`Suite` is what it is held against; it is never shown to them nor
to their code. A :class:`Verdict` says what happened, test by test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: What became of the whole check. All of them are facts about the program, none about the machine.
Kind = Literal[
    "ok",  # the program was loaded and called; see the tests
    "syntax_error",  # a part is no Python, or there is none in the response
    "load_error",  # an exception while the program was executed, before any call
    "missing",  # it was executed and holds no function of the wanted name
    "timeout",  # a limit of time was reached while loading
    "memory",
    "crash",  # the process of the program died while loading
    "protocol_error",  # it sent what is no message
    "checker_limit",  # what it returned made the trusted side exceed its own limits, on two workers
]
#: What became of one test.
Outcome = Literal[
    "passed",
    "failed",  # the assert was evaluated and does not hold
    "error",  # an exception instead of a result
    "timeout",
    "memory",
    "crash",
    "protocol_error",
    "unsupported",  # a value that cannot cross the border (see codec)
    "unreached",  # the test ended without executing the assert
    "not_run",  # nothing was left to run it with: the program did not load, or the budget was spent
]


@dataclass(frozen=True)
class Part:
    """One agent's response.

    Attributes:
        name: the function that the response is to define.
        text: the whole response as the model wrote it: prose, fences, anything.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Program:
    """What the agents wrote together.

    Attributes:
        main: the part with the entry point.
        helpers: the other parts, each with a function of its own name.
        preamble: public code that every program may use, executed before the parts: the imports and helper functions
            that the problem's prompt shows.
    """

    main: Part
    helpers: tuple[Part, ...] = ()
    preamble: str = ""


@dataclass(frozen=True)
class Suite:
    """What a program is held against. Trusted code from a data set; it never enters the process of the program.

    Attributes:
        tests: either defines ``check(candidate)`` with asserts in it, or holds asserts that call the entry point.
        entry_point: the function that the tests call, under this name or as ``candidate``.
        reference: code whose names the tests may use besides the entry point: the problem's own helper functions, with
            or without a reference solution. It is executed on the trusted side.
    """

    tests: str
    entry_point: str
    reference: str = ""


@dataclass(frozen=True)
class PartFacts:
    """What the syntax tree of one part says, before anything is executed.

    Attributes:
        name: the wanted function.
        source: the code that was found in the response; empty if there is none.
        defined: whether a top-level function of that name is there.
        returns: whether it has a ``return`` with a value (of its own, not of a function inside it).
        error: None, or the first syntax error: ``{"type", "line", "column", "message"}``; line and column count from 1
            and refer to ``source``.
    """

    name: str
    source: str
    defined: bool
    returns: bool
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class UseFacts:
    """How the entry point uses one helper, by the syntax tree.

    Attributes:
        called: the entry point, or a function of the main part that it reaches, calls the helper.
        thin: the entry point does nothing but pass the helper's result on.
        ignored: some call's result is thrown away and no call's result is used.
        redefined: the main part binds the helper's name itself, so that calls do not reach the helper.
    """

    called: bool = False
    thin: bool = False
    ignored: bool = False
    redefined: bool = False


@dataclass(frozen=True)
class Structure:
    """What the syntax trees say of a program.

    Attributes:
        main: of the main part.
        helpers: of the helpers, in order.
        together: whether all parts are Python, one after another.
        uses: helper's name -> how the entry point uses it.
    """

    main: PartFacts
    helpers: tuple[PartFacts, ...] = ()
    together: bool = False
    uses: Mapping[str, UseFacts] = field(default_factory=dict)


@dataclass(frozen=True)
class TestResult:
    """One counted test.

    Attributes:
        source: the assert, as the data set has it.
        outcome: see :data:`Outcome`.
        message: for people and for feedback: the error's type and text, clipped; empty where it passed.
        called: helpers that were called while it ran.
    """

    __test__ = False  # not a test class, whatever pytest makes of its name

    source: str
    outcome: Outcome
    message: str = ""
    called: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True)
class Verdict:
    """What came out of a check.

    Attributes:
        kind: of the whole.
        message: why it did not load; empty if it did.
        structure: what the syntax trees say.
        tests: the counted tests in order; always all of them.
        constant: asserts of the suite that are not counted, since they hold whatever the program does.
        isolation: the backend under which the program ran; ``"unsafe"`` stamps results that were not isolated.
    """

    kind: Kind
    message: str
    structure: Structure
    tests: tuple[TestResult, ...]
    constant: tuple[str, ...] = ()
    isolation: str = ""

    @property
    def num_passed(self) -> int:
        return sum(test.passed for test in self.tests)

    @property
    def passed(self) -> bool:
        """Whether there are tests and all passed."""
        return bool(self.tests) and self.num_passed == len(self.tests)


@dataclass(frozen=True)
class Limits:
    """What a program may use up.

    Attributes:
        cpu_seconds: processor time of loading it, and of each call.
        total_cpu_seconds: of the whole check, restarts included.
        wall_seconds: of the whole check: a backstop for programs that wait instead of working.
        restarts: how often a program is loaded anew, after a call for which it had to be killed.
        memory_bytes: address space.
        message_bytes: of one message from the program.
        items: values in one message, and the length that a range, an iterator or a string may expand to.
        depth: nesting of a value.
    """

    cpu_seconds: float = 2.0
    total_cpu_seconds: float = 5.0
    wall_seconds: float = 10.0
    restarts: int = 2
    memory_bytes: int = 1 << 29
    message_bytes: int = 1 << 16
    items: int = 20_000
    depth: int = 64


DEFAULT_LIMITS = Limits()

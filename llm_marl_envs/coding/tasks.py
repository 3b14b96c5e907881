"""``CodingTask``: what the coding environments share. Agents, prompts, and how responses become a program and a score.

Responses are handed to ``llm_marl_envs.sandbox`` as they are; nothing here reads them. What runs programs there is
imported when the first one is scored, so that an environment can be made and reset on any system.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..arguments import at_least
from ..errors import ConfigError, DataError
from ..tables import did_you_mean
from ..task import Score, Task
from . import remarks, rewards
from .problems import HELPER

if TYPE_CHECKING:
    from ..sandbox.programs import Limits, Program, Suite, Verdict

MAIN = "main"
_LAST = re.compile(r"last:(\d+)")
Row = Mapping[str, Any]  # a problems.Problem


class CodingTask(Task[Row]):
    """Helpers write a function each, ``main`` the entry point; rows are ``problems.Problem``.

    Args:
        name: of the environment, without its version.
        num_helpers: how many agents write a helper, at least 1. One is called ``helper`` and writes ``aux``; several
            are ``helper_1``, ``helper_2`` ... and write ``aux_1``, ``aux_2`` ...
        visible_tests: which tests feedback and infos may show: the first k (a whole number), ``"last:k"``, or
            ``"all"``.
        limits: what a program may use up: ``sandbox.Limits``, or some of its fields by name.
        isolation: name of the sandbox's backend; an unknown one is refused by the sandbox.

    Raises:
        ConfigError: an argument is out of range.
    """

    max_terms = rewards.MAX_TERMS
    fields = ("text", "entry_point", "tests")
    can_finish_early = True

    def __init__(
        self,
        name: str,
        num_helpers: int = 1,
        visible_tests: int | str = 1,
        limits: Limits | Mapping[str, float] | None = None,
        isolation: str = "strict",
    ):
        at_least("num_helpers", num_helpers, 1)
        if not isinstance(isolation, str) or not isolation:
            raise ConfigError(f"isolation must name a backend of the sandbox, not {isolation!r}.")
        self.name = name
        self.visible = visible_slice(visible_tests)
        self.limits = checked_limits(limits)
        self.isolation = isolation
        numbers = [""] if num_helpers == 1 else [f"_{i}" for i in range(1, num_helpers + 1)]
        #: Agent -> the name of the function that it writes.
        self.helpers = {f"helper{number}": f"{HELPER}{number}" for number in numbers}
        self.agents = (*self.helpers, MAIN)

    def prompt(self, row: Row, agent: str) -> str:
        entry_point, functions = row["entry_point"], list(self.helpers.values())
        given = f" All but `{entry_point}` in that code is there already; do not repeat it." if row["preamble"] else ""
        if agent == MAIN:
            others = (
                f"Another programmer writes a helper function `{functions[0]}(...)` for this"
                if len(functions) == 1
                else f"Other programmers write helper functions for this: {_listed(functions)}"
            )
            return (
                f"Solve this problem in Python by the function `{entry_point}`.\n\n{row['text']}\n\n"
                f"{others}, at the same time as you write. You may call "
                f"{'it' if len(functions) == 1 else 'them'}: do not define {_listed(functions, 'or')} yourself, and do "
                f"more in `{entry_point}` than pass on a result.{given} Write the whole function `{entry_point}`. "
                "Answer with Python code only."
            )
        own = self.helpers[agent]
        rest = [function for function in functions if function != own]
        also = f" {'A third programmer writes' if len(rest) == 1 else 'Others write'} {_listed(rest)}." if rest else ""
        return (
            f"This problem is to be solved in Python by the function `{entry_point}`.\n\n{row['text']}\n\n"
            f"Another programmer writes `{entry_point}`, at the same time as you write.{also} You write a helper "
            f"function `{own}` that will help to solve the problem and that `{entry_point}` may call: it takes what it "
            f"needs and returns a result of use. Do not write `{entry_point}` itself.{given} Write the whole function "
            f"`{own}`. Answer with Python code only."
        )

    def program(self, row: Row, responses: Mapping[str, str]) -> Program:
        """The responses as a program for the sandbox."""
        from ..sandbox.programs import Part, Program

        parts = tuple(Part(function, responses[agent]) for agent, function in self.helpers.items())
        return Program(Part(row["entry_point"], responses[MAIN]), parts, row["preamble"])

    def suite(self, row: Row) -> Suite:
        """What programs are held against on this row."""
        from ..sandbox.programs import Suite

        return Suite(row["tests"], row["entry_point"], row["reference"])

    def check(self, row: Row, responses: Mapping[str, str]) -> Verdict:
        """Run what the agents wrote.

        Raises:
            Whatever the sandbox raises where it cannot run programs at all; a bad program raises nothing.
        """
        return self.run(row, self.program(row, responses))

    def run(self, row: Row, program: Program) -> Verdict:
        """Run any program against a row's tests, under this task's limits and isolation."""
        from .. import sandbox

        verdict = sandbox.check(program, self.suite(row), self.limits, self.isolation)
        if not verdict.tests:
            raise DataError(f"row {row['id']!r}: its tests have no assert that depends on the program.")
        return verdict

    def score(self, row: Row, responses: Mapping[str, str]) -> Score:
        score = rewards.score_verdict(self.check(row, responses), self.helpers, MAIN, self.visible)
        return dataclasses.replace(score, remarks=remarks.by_mode(score.details))

    def max_parts(self) -> dict[str, float]:
        return rewards.max_parts(self.helpers, MAIN)


def visible_slice(visible_tests: int | str) -> slice:
    """Which of the counted tests agents may learn about: the first k, ``"last:k"``, or ``"all"``.

    Raises:
        ConfigError: it is none of these.
    """
    if visible_tests == "all":
        return slice(None)
    if isinstance(visible_tests, int) and not isinstance(visible_tests, bool) and visible_tests >= 0:
        return slice(0, visible_tests)
    if isinstance(visible_tests, str) and (found := _LAST.fullmatch(visible_tests)):
        return slice(-int(found[1]), None) if int(found[1]) else slice(0, 0)
    raise ConfigError(
        f"visible_tests={visible_tests!r} must be a whole number of at least 0 (the first so many), 'last:k', or 'all'."
    )


def checked_limits(limits: Limits | Mapping[str, float] | None) -> Limits:
    """``Limits``, from some of its fields by name.

    Raises:
        ConfigError: an unknown field, or a value that is no number of at least 0.
    """
    from ..sandbox.programs import Limits  # light, and the same on every system; what runs programs comes later

    if limits is None or isinstance(limits, Limits):
        return limits or Limits()
    if not isinstance(limits, Mapping):
        raise ConfigError(f"limits must be sandbox.Limits, or some of its fields by name, not {limits!r}.")
    known = [field.name for field in dataclasses.fields(Limits)]
    for name, value in limits.items():
        if name not in known:
            raise ConfigError(
                f"limits has no field {name!r}.{did_you_mean(str(name), known)} It has: {', '.join(known)}."
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise ConfigError(f"limits: {name!r} must be a number of at least 0, not {value!r}.")
    return Limits(**limits)  # type: ignore[arg-type]


def _listed(functions: list[str], joint: str = "and") -> str:
    quoted = [f"`{function}(...)`" for function in functions]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {joint} {quoted[-1]}"

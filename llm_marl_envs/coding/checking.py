"""``check_dataset``: does the reference solution of every problem reach full marks?

A data set may be wrong, and so may the sandbox: a solution that fails its own tests shows either before a run trains on
it. The command is ``python -m llm_marl_envs check-data ID``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .tasks import CodingTask

if TYPE_CHECKING:
    from ..sandbox.programs import Verdict


@dataclass(frozen=True)
class Finding:
    """What was found at one row.

    Attributes:
        id: the row's.
        checked: whether the row has a reference solution, which was run.
        passed, total: counted tests; 0 of 0 where nothing was run.
        causes: why full marks were missed: a line for each test that did not pass, or for a solution that did not load.
        unreached: counted tests that the solution's run never executed; they are among the causes too.
        constant: asserts that hold whatever a program does. They are not counted.
    """

    id: str
    checked: bool
    passed: int = 0
    total: int = 0
    causes: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()

    @property
    def is_full(self) -> bool:
        return self.checked and not self.causes


@dataclass(frozen=True)
class DatasetReport:
    """All findings, in the order of the rows."""

    findings: tuple[Finding, ...]

    @property
    def full(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_full]

    @property
    def failed(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.causes]

    @property
    def unchecked(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.checked]

    def lines(self) -> list[str]:
        """The report for a person."""
        checked = [finding for finding in self.findings if finding.checked]
        lines = [f"{len(self.full)} of {len(checked)} reference solutions reach full marks"]
        if checked:
            lines[0] += f" ({sum(finding.passed for finding in self.full):,} counted tests passed)"
        for finding in self.failed:
            lines.append(f"{finding.id}: {finding.passed} of {finding.total} tests passed")
            lines += [f"  {cause}" for cause in finding.causes]
        if self.unchecked:
            ids = [finding.id for finding in self.unchecked]
            lines.append(f"unchecked, since they have no reference solution: {len(ids)} rows ({_some(ids)})")
        for name, what in (
            ("constant", "hold whatever a program does: not counted"),
            ("unreached", "are never reached"),
        ):
            found = {finding.id: getattr(finding, name) for finding in self.findings if getattr(finding, name)}
            if found:
                count = sum(map(len, found.values()))
                lines.append(f"asserts that {what}: {count}, in {len(found)} rows ({_some(list(found))})")
        return lines


def check_dataset(task: CodingTask, rows: Iterable[Mapping[str, Any]], threads: int | None = None) -> DatasetReport:
    """Run every reference solution, as the main part alone, against its tests.

    Args:
        task: gives limits and isolation: ``env.task``.
        rows: problems, such as ``env.rows``.
        threads: how many checks are under way at once; by default one for each processor.

    Raises:
        DataError: tests without an assert that counts.
        Whatever the sandbox raises where it cannot run programs.
    """
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        return DatasetReport(tuple(pool.map(lambda row: _checked(task, row), rows)))


def _checked(task: CodingTask, row: Mapping[str, Any]) -> Finding:
    from ..sandbox.programs import Part, Program

    # Without a solution an empty program is run, for what the sandbox says of the tests.
    verdict = task.run(row, Program(Part(row["entry_point"], row["solution"]), (), row["preamble"]))
    if not row["solution"]:
        return Finding(row["id"], checked=False, constant=verdict.constant)
    return Finding(
        id=row["id"],
        checked=True,
        passed=verdict.num_passed,
        total=len(verdict.tests),
        causes=tuple(_causes(verdict)),
        unreached=tuple(test.source for test in verdict.tests if test.outcome == "unreached"),
        constant=verdict.constant,
    )


def _causes(verdict: Verdict) -> list[str]:
    if verdict.kind != "ok":
        return [f"{verdict.kind}: {verdict.message}".rstrip(": ")]
    return [
        f"{test.source}: {test.outcome}{f' ({test.message})' if test.message else ''}"
        for test in verdict.tests
        if not test.passed
    ]


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")

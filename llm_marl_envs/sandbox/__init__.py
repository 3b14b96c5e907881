"""Runs what models wrote, and says which tests it passes."""

from __future__ import annotations

from .programs import DEFAULT_LIMITS, Limits, Part, Program, Suite, TestResult, Verdict


def check(program: Program, suite: Suite, limits: Limits = DEFAULT_LIMITS, isolation: str = "strict") -> Verdict:
    """Hold a program against a suite, with the workers that this process shares.

    Args:
        program: what the agents wrote.
        suite: trusted tests.
        limits: of the program.
        isolation: ``"strict"``, ``"seccomp"``, ``"unsafe"`` or ``"package.module:Class"``; see :mod:`.isolation`.

    Raises:
        UnknownNameError: no such isolation.
        SandboxUnavailable: the isolation layer cannot start here; nothing weaker is tried.
        SandboxError: the machine or the sandbox fails; nothing was scored.
    """
    from .pool import shared  # POSIX only: imported when something is scored

    return shared(isolation, limits).check(program, suite)


__all__ = ["Limits", "Part", "Program", "Suite", "TestResult", "Verdict", "check"]

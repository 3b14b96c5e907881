"""What a check finds: what is wrong and where, and what to change."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pettingzoo import ParallelEnv

from ..errors import CheckFailedError

Check = Callable[[ParallelEnv], None]

# Packages whose frames in a traceback are not the author's.
_PACKAGE = Path(__file__).resolve().parents[1]
_LIBRARIES = (f"{_PACKAGE}/", "/pettingzoo/", "/gymnasium/")


@dataclass(frozen=True)
class Finding:
    """One broken rule.

    Attributes:
        found: what is wrong, and where: the agent, the step, the value.
        mend: what to change.
        demanded: False for a rule of ours that ``strict=False`` does not demand.
    """

    found: str
    mend: str
    demanded: bool = True

    def __str__(self) -> str:
        return f"{self.found} {self.mend}"


class RuleBroken(CheckFailedError):  # noqa: N818 -- it says what is the case
    """Raised inside a check, at the first place where its rule is broken."""

    def __init__(self, found: str, mend: str):
        super().__init__(f"{found} {mend}")
        self.found, self.mend = found, mend


def fail(found: str, mend: str) -> NoReturn:
    """Say that a rule is broken: what is wrong and where, and what to change."""
    raise RuleBroken(_capitalised(found), mend)


def raised(what: str, error: BaseException, more: str = "") -> RuleBroken:
    """The finding for an environment that raised while it did ``what``."""
    return RuleBroken(
        f"{_capitalised(what)} raised {described(error)}{more}.",
        "reset(), state() and a step with actions of their spaces must not raise: whatever text a model writes is "
        "data.",
    )


def described(error: BaseException) -> str:
    """An exception in a line: its type, its message, and the author's own line that raised it."""
    text = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        return f"{text} (in {_shown(str(error.filename))}, line {error.lineno}: {str(error.text).strip()!r})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(part in f.filename for part in (*_LIBRARIES, "<frozen importlib"))]
    if not own:
        return text
    return f"{text} (in {_shown(own[-1].filename)}, line {own[-1].lineno}, {own[-1].name}(): {own[-1].line!r})"


def _capitalised(sentence: str) -> str:
    """With a capital letter, unless it begins with the name of something in code."""
    return sentence[0].upper() + sentence[1:] if sentence.partition(" ")[0].isalpha() else sentence


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def short(value: Any) -> str:
    """A value as a message shows it."""
    shown = repr(value)
    return shown if len(shown) <= 120 else f"{shown[:117]}... ({type(value).__name__})"

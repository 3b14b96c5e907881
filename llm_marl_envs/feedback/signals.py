"""``signals``: the score of the last turn in numbers, as a reward would tell it, without any advice.

What the task adds (``Score.remarks``) follows: for code, the number of tests that passed, and whether each visible one
did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Score, Transcript
from .revise import REQUEST


def signals(row: Mapping[str, Any], transcript: Transcript, score: Score, agent: str) -> str:
    lines = [f"Joint score of the last responses: {score.total:.2f}"]
    lines += [f"- {name}: {value:.2f}" for name, value in score.terms.items()]
    return "\n".join([*lines, *score.remarks.get("signals", ()), REQUEST])

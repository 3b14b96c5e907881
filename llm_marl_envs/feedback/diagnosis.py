"""``diagnosis``: which terms of the last score fall short of their maximum, the worst first.

The maximum of each term is what the task states (``Task.max_terms``, passed on as ``score.limits``). A term without a
stated maximum is reported as its value alone. What the task adds (``Score.remarks``) follows: for code, the state of
each part, the tests that failed as far as they are visible, and whether the helper is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Score, Transcript
from .revise import REQUEST


def diagnosis(row: Mapping[str, Any], transcript: Transcript, score: Score, agent: str) -> str:
    limits = score.limits
    missing = {name: limits[name] - value for name, value in score.terms.items() if name in limits}
    short = sorted((name for name in missing if missing[name] > 1e-9), key=lambda name: -missing[name])
    full = [name for name in missing if name not in short]
    other = [name for name in score.terms if name not in missing]
    lines = [f"Joint score of the last responses: {score.total:.2f}"]
    if short:
        lines.append("Short of the maximum:")
        lines += [f"- {name}: {score.terms[name]:.2f} of {limits[name]:.2f}" for name in short]
    if full:
        lines.append(f"At the maximum: {', '.join(full)}")
    lines += [f"- {name}: {score.terms[name]:.2f}" for name in other]
    if said := score.remarks.get("diagnosis"):
        lines += ["What was found:", *said]
    return "\n".join([*lines, REQUEST])

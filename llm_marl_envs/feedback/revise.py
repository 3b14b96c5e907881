"""``revise``: nothing but a request. All that the agent learns is what it can read in its own history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Score, Transcript

REQUEST = "Write your response again and make it better. Answer with the whole new response only."


def revise(row: Mapping[str, Any], transcript: Transcript, score: Score, agent: str) -> str:
    return REQUEST

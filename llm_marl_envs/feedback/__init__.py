"""What agents are told between turns: one file a mode, each a function

    ``feedback(row, transcript, score, agent) -> str``

of the data row, the turns played so far (the last one included), the last turn's score, and the agent that will read
the text. A mode works for every task from ``Score.terms`` alone. Name one of these, or pass your own function, or
``"package.module:function"``:

``revise``      only the request to improve the last response
``signals``     the total and each term as numbers
``diagnosis``   which terms fall short, and by how much
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..tables import Table
from ..task import Score, Transcript

Feedback = Callable[[Mapping[str, Any], Transcript, Score, str], str]

MODES = Table(
    "feedback mode",
    {
        "revise": "llm_marl_envs.feedback.revise:revise",
        "signals": "llm_marl_envs.feedback.signals:signals",
        "diagnosis": "llm_marl_envs.feedback.diagnosis:diagnosis",
    },
)

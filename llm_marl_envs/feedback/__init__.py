"""What agents are told between turns: one file a mode, each a function

    ``feedback(row, transcript, score, agent) -> str``

of the data row, the turns played so far (the last one included), the last turn's score, and the agent that will read
the text. A mode works for every task from ``Score.terms`` alone; a task may add to what it says (``Score.remarks``).
Name one of these, or pass your own function, or ``"package.module:function"``:

``revise``      only the request to improve the last response
``signals``     the total and each term as numbers
``diagnosis``   which terms fall short, and by how much
``expert``      an edit that a callable or an endpoint (``openai:NAME@URL``) proposes; needs
                ``feedback_kwargs={"propose": ...}``, and is not reproducible

A mode may also be a class: then it is called with ``feedback_kwargs``, and the instance is the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ConfigError
from ..tables import Table
from ..task import Score, Transcript

Feedback = Callable[[Mapping[str, Any], Transcript, Score, str], str]

MODES = Table(
    "feedback mode",
    {
        "revise": "llm_marl_envs.feedback.revise:revise",
        "signals": "llm_marl_envs.feedback.signals:signals",
        "diagnosis": "llm_marl_envs.feedback.diagnosis:diagnosis",
        "expert": "llm_marl_envs.feedback.expert:Expert",
    },
)


def resolve(mode: str | Feedback, kwargs: Mapping[str, Any] | None = None) -> Feedback:
    """The function for a mode.

    Args:
        mode: a name in ``MODES``, ``"package.module:function"``, or a function.
        kwargs: what a mode that is a class is made with.

    Raises:
        ConfigError: it is no function, or does not take these keywords.
        UnknownNameError: there is no such mode.
    """
    found: Any = MODES.resolve(mode)
    if isinstance(found, type):
        try:
            inspect.signature(found).bind(**(kwargs or {}))
        except TypeError as error:
            raise ConfigError(f"feedback={mode!r} with feedback_kwargs={dict(kwargs or {})!r}: {error}.") from error
        found = found(**(kwargs or {}))
    elif kwargs:
        raise ConfigError(f"feedback={mode!r} is a function and takes no feedback_kwargs; {dict(kwargs)!r} were given.")
    if not callable(found):
        raise ConfigError(f"feedback must be a name, 'package.module:function' or a function, not {mode!r}.")
    return found

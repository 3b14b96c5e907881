"""What the adapters to other libraries share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from ..errors import ConfigError
from ..spaces import require_text_spaces


def require_text(env: Any, user: str) -> None:
    """Refuse what is not a parallel environment of text.

    Args:
        env: what was handed in.
        user: who needs it, for the message.

    Raises:
        ConfigError: it is no ``ParallelEnv``, or a space of it is not text.
    """
    if not isinstance(env, ParallelEnv):
        raise ConfigError(
            f"{user} takes a pettingzoo.ParallelEnv, such as llm_marl_envs.make('probe/own-word-v0'), not "
            f"{type(env).__name__}. An AEC environment is turned into one by "
            "pettingzoo.utils.conversions.aec_to_parallel."
        )
    require_text_spaces(env, f"{user} takes")


def asked_agents(env: ParallelEnv, infos: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Who is asked in the step that comes: the living agents but those with ``infos[agent]["acts"] == 0``."""
    return [agent for agent in env.agents if infos.get(agent, {}).get("acts", 1)]

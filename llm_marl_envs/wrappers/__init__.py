"""Protocols: in which order the agents of a parallel text environment answer, and whether they talk before. Each is a
wrapper, so that it can be evaluated and trained like any environment.

``parallel``     all agents answer at once: the environment as it is
``sequential``   they answer one after another; later ones see what earlier ones of the turn wrote
``discussion``   they exchange messages for some rounds, then answer at once
``single``       one model answers for all roles in one response

The first three keep the agents. Who is asked in a step is told by ``infos[agent]["acts"]``. They are the untrained
baselines of arXiv 2508.04652 (one model alone, naive parallel, a sequential pipeline, one round of discussion);
``docs/wrappers.md`` is their page.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pettingzoo import ParallelEnv

from ..errors import ConfigError
from ..tables import Table, did_you_mean
from .discussion import Discussion
from .sequential import Sequential
from .single import SingleAgentView
from .tokens import TokenView

PROTOCOLS = Table(
    "protocol",
    {
        "discussion": "llm_marl_envs.wrappers.discussion:Discussion",
        "parallel": "llm_marl_envs.wrappers:parallel",
        "sequential": "llm_marl_envs.wrappers.sequential:Sequential",
        "single": "llm_marl_envs.wrappers.single:SingleAgentView",
    },
)


def parallel(env: ParallelEnv) -> ParallelEnv:
    """All agents answer at once: the environment itself."""
    return env


def wrap(env: ParallelEnv, protocol: str | Callable[..., ParallelEnv] = "parallel", **kwargs: Any) -> ParallelEnv:
    """Let the agents of an environment follow a protocol.

    Args:
        env: any ``ParallelEnv`` whose observations and actions are text.
        protocol: a name in ``PROTOCOLS``, ``"package.module:Class"``, or what is called with the environment.
        **kwargs: the protocol's own arguments.

    Raises:
        UnknownNameError: there is no such protocol; the message offers the nearest.
        ConfigError: a keyword that the protocol does not take, a value outside its range, or spaces that are not text.
    """
    build = PROTOCOLS.resolve(protocol)
    if not callable(build):
        raise ConfigError(f"protocol must be a name, 'package.module:Class' or a callable, not {protocol!r}.")
    parameters = inspect.signature(build).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for name in kwargs:
            if name not in (known := list(parameters)[1:]):
                takes = f" It takes: {', '.join(known)}." if known else " It takes none."
                raise ConfigError(f"protocol={protocol!r} takes no keyword {name!r}.{did_you_mean(name, known)}{takes}")
    return build(env, **kwargs)


__all__ = ["PROTOCOLS", "Discussion", "Sequential", "SingleAgentView", "TokenView", "parallel", "wrap"]

"""Who hears whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..errors import ConfigError
from ..tables import did_you_mean

Topology = Literal["all", "ring", "star"] | Mapping[str, Sequence[str]]
NAMES = ("all", "ring", "star")


def hearing(topology: Topology | Any, agents: Sequence[str], hub: str | None = None) -> dict[str, tuple[str, ...]]:
    """For each agent the others that it hears, in the order of ``agents``.

    Args:
        topology: ``"all"``: everybody hears everybody else. ``"ring"``: each hears the one before and the one after it
            in the order of ``agents``, the last and the first being neighbours. ``"star"``: the hub hears all others,
            and they hear the hub only. Or for every agent the list of those that it hears, which may be empty.
        agents: all agents, in their order.
        hub: the middle of the star; by default the first agent.

    Raises:
        ConfigError: an unknown name or agent, an agent that hears itself, one without a list or named twice in one, a
            hub without a star, or nobody who hears anybody.
    """
    if hub is not None and topology != "star":
        raise ConfigError(f"hub={hub!r} is for topology='star' only, and the topology is {topology!r}. Leave it out.")
    if isinstance(topology, Mapping):
        heard = _checked(topology, agents)
    elif topology == "all":
        heard = {a: tuple(b for b in agents if b != a) for a in agents}
    elif topology == "ring":
        near = {a: {agents[i - 1], agents[(i + 1) % len(agents)]} for i, a in enumerate(agents)}
        heard = {a: tuple(b for b in agents if b in near[a] and b != a) for a in agents}
    elif topology == "star":
        middle = agents[0] if hub is None else hub
        if middle not in agents:
            raise ConfigError(f"hub={middle!r} is no agent.{did_you_mean(str(middle), agents)} Agents: {list(agents)}.")
        heard = {a: tuple(b for b in agents if b != a) if a == middle else (middle,) for a in agents}
    else:
        hint = did_you_mean(str(topology), NAMES)
        raise ConfigError(
            f"topology={topology!r} is not one of {', '.join(map(repr, NAMES))}.{hint} "
            "Your own is a dict: each agent -> the list of agents that it hears."
        )
    if not any(heard.values()):
        raise ConfigError(
            f"With topology={topology!r} none of the agents {list(agents)} hears another, so that there is nothing to "
            "discuss. Name at least one agent in one list, or use the environment without Discussion."
        )
    return heard


def _checked(topology: Mapping[str, Any], agents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    for agent, names in topology.items():
        if agent not in agents:
            raise ConfigError(
                f"topology names an unknown agent {agent!r}.{did_you_mean(str(agent), agents)} {_known(agents)}"
            )
        if isinstance(names, str) or not isinstance(names, (Sequence, set, frozenset)):
            raise ConfigError(f"topology[{agent!r}] must be a list of the agents that {agent!r} hears, not {names!r}.")
        for name in names:
            if name == agent:
                raise ConfigError(
                    f"topology[{agent!r}] names {agent!r} itself. An agent knows its own messages: take it out."
                )
            if name not in agents:
                hint = did_you_mean(str(name), agents)
                raise ConfigError(f"topology[{agent!r}] names an unknown agent {name!r}.{hint} {_known(agents)}")
        if len(set(names)) < len(names):
            raise ConfigError(f"topology[{agent!r}] names an agent twice: {list(names)}. Name each once.")
    if missing := [a for a in agents if a not in topology]:
        raise ConfigError(
            f"topology has no list for {missing}. Give every agent the list of those that it hears; "
            "[] for one that hears nobody."
        )
    return {a: tuple(b for b in agents if b in topology[a]) for a in agents}


def _known(agents: Sequence[str]) -> str:
    return f"The agents are {list(agents)}."

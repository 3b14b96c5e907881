"""Checks that several classes share: of arguments (ConfigError), and of what ``step`` gets (InvalidActionError)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import ConfigError, InvalidActionError, ResetNeededError
from .tables import did_you_mean


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is not among those allowed."""
    if value not in allowed:
        hint = did_you_mean(str(value), [a for a in allowed if a])
        raise ConfigError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}.{hint}")


def at_least(name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number, or a smaller one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def need_episode(agents: Any) -> None:
    """Refuse a step where nobody is in the game. Raises ResetNeededError."""
    if not agents:
        raise ResetNeededError("step() needs an episode: it has not begun, or has ended; call reset() first.")


def check_joint_action(actions: Any, possible_agents: Iterable[str], kind: str = "text") -> None:
    """Refuse what is no joint action. Whether those who are asked answered, and what, is for the caller to see.

    Args:
        actions: what ``step`` got.
        possible_agents: all agents there are.
        kind: of a single action, for the message.

    Raises:
        InvalidActionError: no dict, or an unknown agent in it.
    """
    if not isinstance(actions, Mapping):
        raise InvalidActionError(f"step() takes a dict agent -> {kind}, not {type(actions).__name__}.")
    known = list(possible_agents)
    for agent in actions:
        if agent not in known:
            hint = did_you_mean(str(agent), known)
            raise InvalidActionError(f"Unknown agent {agent!r}.{hint} The agents are {known}.")

"""Checks of arguments that several constructors share. Each raises ConfigError and names the argument and its limit."""

from __future__ import annotations

from typing import Any

from .errors import ConfigError
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

"""How an endpoint is named: ``openai:NAME@URL#OPTION=...``, as :mod:`llm_marl_envs.integrations.openai` explains it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigError
from ..tables import did_you_mean

PREFIX = "openai:"
FORM = "openai:NAME@URL, such as openai:tiny@http://127.0.0.1:8000/v1"
KEY = "OPENAI_API_KEY"
_WITH_URL = re.compile(r"(?P<name>.+?)@(?P<url>https?://.*)", re.IGNORECASE)
# Upper-case only: a key that was typed here by mistake is not taken for a name, and no message repeats it.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class EndpointSpec:
    """An endpoint as it is named.

    Attributes:
        name: of the model.
        url: without a stroke at its end.
        concurrency: most requests at a time.
        timeout: seconds for one request.
        retries: further attempts after a failure that may pass.
        key: the environment variable with the key.
    """

    name: str
    url: str
    concurrency: int = 8
    timeout: float = 300.0
    retries: int = 4
    key: str = KEY

    @classmethod
    def parse(cls, spec: str) -> EndpointSpec:
        """Read ``openai:NAME@URL#OPTION=...``.

        Raises:
            ConfigError: it is not of that form, or an option is unknown or out of range. The message repeats no part
                in which a password or a key may stand.
        """
        named = spec.removeprefix(PREFIX)
        found = _WITH_URL.fullmatch(named)
        if not spec.startswith(PREFIX) or found is None:
            name, at, _ = named.partition("@")
            wrong = "its URL does not begin with http:// or https://" if at and name else "it has no NAME@URL"
            raise ConfigError(f"{PREFIX}{name} does not name an endpoint: {wrong}. The form is {FORM}.")
        url, *options = found["url"].split("#")
        _check_url(found["name"], url)
        return cls(found["name"], url.rstrip("/"), **_options(found["name"], options))

    def __str__(self) -> str:
        return f"{PREFIX}{self.name}@{self.url}"


def _check_url(name: str, url: str) -> None:
    parts = urlsplit(url)
    try:
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or too large
        valid = False
    if parts.username is not None or parts.password is not None or parts.query:
        raise ConfigError(
            f"The URL of {PREFIX}{name} holds a user, a password or a query. It is written to config.yaml and logs, so "
            f"secrets have no place in it: put the key into the environment variable {KEY}."
        )
    if not valid:
        raise ConfigError(f"The URL {url!r} of {PREFIX}{name} has no host or a wrong port. The form is {FORM}.")


def _options(name: str, given: Sequence[str]) -> dict[str, Any]:
    kinds: Mapping[str, tuple[type, float, str]] = {
        "concurrency": (int, 1, "a whole number of at least 1"),
        "timeout": (float, 0, "a number of seconds above 0"),
        "retries": (int, 0, "a whole number of at least 0"),
    }
    found: dict[str, Any] = {}
    for option in given:
        key, _, value = option.partition("=")
        if key == "key":
            if not _VARIABLE.fullmatch(value):
                raise ConfigError(
                    f"#key of {PREFIX}{name} must be the NAME of an environment variable in upper case, such as "
                    f"#key={KEY}; the key itself has no place here."
                )
            found["key"] = value
            continue
        if key not in kinds:
            known = [*kinds, "key"]
            hint = did_you_mean(key, known)
            raise ConfigError(f"Unknown option #{key} of {PREFIX}{name}.{hint} Known: {', '.join(known)}.")
        kind, least, words = kinds[key]
        try:
            found[key] = kind(value)
        except ValueError:
            found[key] = -1
        if not least <= found[key] < 1e6 or (kind is float and found[key] == 0):
            raise ConfigError(f"#{key} of {PREFIX}{name} must be {words}, not {value!r}.")
    return found

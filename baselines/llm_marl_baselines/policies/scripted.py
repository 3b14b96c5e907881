"""A policy that is a Python function: for baselines, tests, and agents that need no model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_marl_envs.errors import ConfigError

from .base import Policy, Request, Response

Function = Callable[[str, str], str]  # (observation, agent) -> response


class Scripted:
    """Answers with ``function(observation, agent)``.

    The observation is the newest user message, so that one function serves whether or not a rollout keeps earlier turns
    in the chat. It is called once for each sample, in order. Seed and ``greedy`` are of no account to it.

    Args:
        function: from the observation and the agent's name to the response, both plain text.
    """

    def __init__(self, function: Function):
        self.function = function

    def generate(self, requests: Sequence[Request], *, seed: int, greedy: bool = False) -> list[list[Response]]:
        """See :class:`Policy`. Raises ConfigError where the function returns something other than text."""
        return [[self._answer(request) for _ in range(request.num_samples)] for request in requests]

    def _answer(self, request: Request) -> Response:
        observation = next((m["content"] for m in reversed(request.messages) if m["role"] == "user"), "")
        text = self.function(observation, request.agent)
        if not isinstance(text, str):
            raise ConfigError(
                f"The scripted policy of agent {request.agent!r} returned {text!r}, a {type(text).__name__}; "
                "it must return the response as a str."
            )
        return Response(text=text, raw_text=text)


def from_object(found: Any, name: str) -> Policy:
    """A policy from what ``package.module:Thing`` leads to.

    Args:
        found: an object with ``generate``; a function ``(observation, agent) -> str``; or a class of either, which is
            made without arguments.
        name: how it was named, for messages.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(found, type):
        try:
            inspect.signature(found).bind()
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{name} is a class that cannot be made without arguments: {error}. Name an instance, or a subclass "
                "that sets them."
            ) from error
        found = found()
    if isinstance(found, Policy):
        return found
    if not callable(found):
        raise ConfigError(
            f"{name} is {found!r}, and no policy: it needs a method generate "
            "(llm_marl_baselines.policies.base.Policy), or must be a function (observation, agent) -> str."
        )
    return Scripted(found)


def as_policies(given: Mapping[str, Policy | Function]) -> dict[str, Policy]:
    """Agent -> policy, where functions are taken, too. Raises ConfigError for what is neither."""
    return {agent: from_object(found, f"The policy of agent {agent!r}") for agent, found in given.items()}

"""A policy that is a Python function: for baselines, tests, and agents that need no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_marl_envs.errors import ConfigError

from .base import Request, Response


class Scripted:
    """Answers with ``function(observation, agent)``.

    The observation is the newest user message, so that one function serves whether or not a rollout keeps earlier turns
    in the chat. It is called once for each sample, in order. Seed and ``greedy`` are of no account to it.

    Args:
        function: from the observation and the agent's name to the response, both plain text.
    """

    def __init__(self, function: Callable[[str, str], str]):
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

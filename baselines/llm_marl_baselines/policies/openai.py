"""A model behind an endpoint that speaks OpenAI's chat protocol, as a policy: it answers and is never trained.

Each sample is a request of its own, with a seed of its own, many of them at a time. The same seed gives the same
answers only where the endpoint keeps to the seed of each request; many do not, and then results are not reproducible.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.integrations.openai import Endpoint

from .base import Request, Response, Sampling
from .prompts import after_thinking

SEEDS = 2**31  # every server takes seeds below it


class OpenAIPolicy:
    """Answers for any number of agents by one model of one endpoint.

    Args:
        endpoint: ``"openai:NAME@URL"`` or an :class:`Endpoint`; see :mod:`llm_marl_envs.integrations.openai`.
        sampling: one for all agents, or one for each.

    Raises:
        ConfigError: a wrong spec, or ``top_k``, which the protocol does not have.
        MissingDependencyError: the package ``openai`` is not installed.
    """

    def __init__(self, endpoint: str | Endpoint, sampling: Sampling | Mapping[str, Sampling] | None = None):
        self.endpoint = Endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self._sampling = sampling or Sampling()
        for agent, settings in self._sampling.items() if isinstance(self._sampling, Mapping) else ():
            self._check(agent, settings)
        self._warned = False

    def generate(self, requests: Sequence[Request], *, seed: int, greedy: bool = False) -> list[list[Response]]:
        """See :class:`Policy`. ``greedy`` is temperature 0.

        Raises:
            EndpointError: the endpoint gives no answer; requests that wait are given up.
            ConfigError: an agent without sampling settings.
        """
        asked: dict[str, int] = {}  # requests so far, by agent
        jobs: list[tuple[int, Request, int]] = []
        for number, request in enumerate(requests):
            count = asked[request.agent] = asked.get(request.agent, -1) + 1
            for sample in range(request.num_samples):
                jobs.append((number, request, request.seed_of(sample, seed, count) % SEEDS))
        results: list[list[Response]] = [[] for _ in requests]
        if jobs:
            with ThreadPoolExecutor(min(self.endpoint.spec.concurrency, len(jobs))) as pool:
                answers = pool.map(lambda job: self._answer(job[1], job[2], greedy), jobs)
                for (number, _, _), answer in zip(jobs, answers, strict=True):
                    results[number].append(answer)
        if self.endpoint.usage.unreported and not self._warned:
            self._warned = True
            warnings.warn(f"{self.endpoint.spec} does not report tokens; its answers count as 0 tokens.", stacklevel=2)
        return results

    def _answer(self, request: Request, seed: int, greedy: bool) -> Response:
        settings = self._settings(request.agent)
        answer = self.endpoint.ask(
            request.messages,
            temperature=0.0 if greedy else settings.temperature,
            top_p=1.0 if greedy else settings.top_p,
            max_tokens=settings.max_new_tokens,
            seed=seed,
        )
        return Response(
            after_thinking(answer.text),
            answer.text,
            finished=answer.finish_reason != "length",
            reported_tokens=answer.completion_tokens or 0,
        )

    def _settings(self, agent: str) -> Sampling:
        if isinstance(self._sampling, Sampling):
            self._check(agent, self._sampling)
            return self._sampling
        if agent not in self._sampling:
            raise ConfigError(
                f"{self.endpoint.spec} has no sampling settings for agent {agent!r}; it has them for "
                f"{', '.join(self._sampling)}."
            )
        return self._sampling[agent]

    def _check(self, agent: str, settings: Sampling) -> None:
        if settings.top_k:
            raise ConfigError(
                f"sampling.top_k of agent {agent!r} is {settings.top_k}, and OpenAI's protocol has no top_k. Set it to "
                f"0 for this agent: --sampling.agents '{{{agent}: {{top_k: 0}}}}'"
            )

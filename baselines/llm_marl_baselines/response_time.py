"""How long agents take to answer, measured for each agent alone.

An evaluation samples many responses together, which hides what a single one takes. Here each agent's policy is asked by
itself, for one response at a time, as in an application; environments and scores are not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from .batch import Batch
from .plan import Plan, Start
from .policies.base import Policy, Request, Response
from .policies.scripted import Function, as_policies
from .rollout import Memory, collect
from .seeding import derive_seed
from .statistics import bootstrap


@dataclass(frozen=True)
class ResponseTimes:
    """Seconds of T episodes, each of another row while there are any.

    Attributes:
        agents: agent -> (T,) seconds that the agent's responses took together.
        total: (T,) what an episode takes if the agents of a step answer one after another (the sum over agents, and
            over steps).
        slowest: (T,) what it takes if they answer at the same time, each on a machine of its own (the maximum over
            the agents of a step, summed over steps).
        tokens: (T,) tokens sampled.
    """

    agents: Mapping[str, np.ndarray]
    total: np.ndarray
    slowest: np.ndarray
    tokens: np.ndarray

    def as_dict(self) -> dict[str, Any]:
        """JSON values: means with bootstrap intervals over episodes, and the episodes' own numbers."""
        by_episode = {"sum": self.total, "maximum": self.slowest}
        by_episode |= {f"agent/{agent}": seconds for agent, seconds in self.agents.items()}
        return {
            "episodes": len(self.total),
            "tokens_per_s": float(self.tokens.sum() / max(self.total.sum(), 1e-9)),
            **{name: bootstrap(seconds).as_dict() for name, seconds in by_episode.items()},
            "by_episode": {name: seconds.tolist() for name, seconds in by_episode.items()},
        }


class _Timed:
    """An agent's policy with a stopwatch. One object for each agent, so that agents are never asked together."""

    def __init__(self, policy: Policy):
        self.policy = policy
        self.seconds: list[float] = []

    def generate(self, requests: Sequence[Request], *, seed: int, greedy: bool = False) -> list[list[Response]]:
        began = time.perf_counter()
        given = self.policy.generate(requests, seed=seed, greedy=greedy)
        self.seconds.append(time.perf_counter() - began)
        return given


def measure(
    policies: Mapping[str, Policy | Function],
    make_env: Callable[[], ParallelEnv],
    starts: Sequence[Start],
    *,
    seed: int,
    episodes: int,
    memory: Memory | None = None,
) -> ResponseTimes:
    """Play single sampled episodes, one agent and one response at a time, with a stopwatch.

    Policies should have answered before, since a first call may load and compile things.

    Args:
        policies: who answers for each agent.
        make_env: builds the environment.
        starts: the rows, taken in turn.
        seed: of the sampling.
        episodes: T, at least 1.
    """
    found = []
    agents: tuple[str, ...] = ()
    for i in range(episodes):
        timed = {agent: _Timed(policy) for agent, policy in as_policies(policies).items()}
        start = starts[i % len(starts)]
        batch = collect(timed, make_env, [start], Plan(1, "chains"), seed=derive_seed(seed, "time", i), memory=memory)
        found.append(_seconds(batch, timed))
        agents = batch.agents
    tables = [table for table, _ in found]
    return ResponseTimes(
        agents={agent: np.array([table[:, column].sum() for table in tables]) for column, agent in enumerate(agents)},
        total=np.array([table.sum() for table in tables]),
        slowest=np.array([table.max(axis=1).sum() for table in tables]),
        tokens=np.array([tokens for _, tokens in found]),
    )


def _seconds(batch: Batch, timed: Mapping[str, _Timed]) -> tuple[np.ndarray, int]:
    """(steps, N) seconds of each agent in each step, 0 where it was not asked; and the tokens of the episode."""
    table = np.zeros(batch.acted.shape)
    for column, agent in enumerate(batch.agents):
        table[batch.acted[:, column], column] = timed[agent].seconds
    return table, sum(response.num_tokens for response in batch.responses)

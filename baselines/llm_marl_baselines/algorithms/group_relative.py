"""What group-relative algorithms share: settings, groups, and the way from rewards to advantages and gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..advantages import group_advantages, response_returns, step_returns
from ..batch import Batch
from ..plan import Plan
from ..policies.base import TrainablePolicy
from ..update import policy_updates
from .base import Algorithm, AlgorithmConfig

GroupBy = Literal["agent_turn", "agent", "turn", "root"]


@dataclass(frozen=True)
class GroupConfig(AlgorithmConfig):
    """Settings of a group-relative algorithm, beside those of every algorithm.

    Attributes:
        standardize: divide by the group's standard deviation plus ``std_eps``. Nothing is centred again.
        baseline: what a return is compared with: the group's ``mean`` (paper), the mean of the others (``loo``), the
            return of the ``greedy`` joint response, the group's ``max``, or ``none``.
        group_by: whose returns are each other's group: of one agent at one node, or in chains at one turn
            (``agent_turn``; AT-GRPO); of one agent over all turns (``agent``; Dr. MAS); of all agents at one node or
            turn (``turn``); of all agents and turns of a start (``root``).
    """

    baseline: Literal["mean", "loo", "greedy", "max", "none"] = "mean"
    group_by: GroupBy = "agent_turn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_size < 2 and (self.standardize or self.baseline not in ("none", "greedy")):
            raise ConfigError(f"group_size must be at least 2, not {self.group_size}: one response has no group.")
        if self.standardize and self.baseline in ("none", "greedy"):
            raise ConfigError(
                f"standardize divides by a group's standard deviation, which is no measure of what baseline="
                f"{self.baseline} leaves: a group whose returns are all equal would get advantages without limit. "
                "Standardise with baseline=mean, loo or max."
            )


class GroupRelative(Algorithm):
    """An algorithm whose advantages compare responses of a group. A subclass says how joint actions are made
    (``pairing``) and what the agents earn (``rewards``)."""

    config: GroupConfig

    @property
    @abstractmethod
    def pairing(self) -> Literal["aligned", "cross", "held"]:
        """See :class:`~llm_marl_baselines.plan.Plan`."""

    @abstractmethod
    def rewards(self, batch: Batch) -> np.ndarray:
        """(K, N) what each agent learns from."""

    @property
    def plan(self) -> Plan:
        c = self.config
        return Plan(
            c.group_size, c.shape, self.pairing, greedy=c.baseline == "greedy", max_joint_actions=c.max_joint_actions
        )

    def returns(self, batch: Batch) -> np.ndarray:
        """(K, N) return of every step, to each agent."""
        return step_returns(self.rewards(batch), batch.parent, self.config.gamma, batch.step_share)

    def advantages(self, batch: Batch) -> np.ndarray:
        """(B,) advantage of every response."""
        return advantages_of(batch, self.returns(batch), self.config)

    def update(self, batch: Batch, policy: TrainablePolicy) -> Iterator[dict[str, float]]:
        """One pass over the batch, or ``loss.epochs``. Diagnostics: those of :func:`group_stats` and of
        :func:`~llm_marl_baselines.update.accumulate_gradients`."""
        advantages = self.advantages(batch)
        stats = group_stats(batch, self.returns(batch), advantages, self.config.group_by)
        yield from policy_updates(policy, batch, advantages, self.config.loss, stats)


def groups(batch: Batch, by: GroupBy = "agent_turn") -> np.ndarray:
    """(B,) one number for each group of responses; see ``group_by``."""
    node, agents = batch.response_node, len(batch.agents)
    if by == "agent_turn":
        return batch.group[node] * agents + batch.response_agent
    if by == "agent":
        return batch.root[node] * agents + batch.response_agent
    return batch.group[node] if by == "turn" else batch.root[node]


def advantages_of(batch: Batch, returns: np.ndarray, config: GroupConfig) -> np.ndarray:
    """(B,) advantage of every response; 0 for those that nothing is learned from.

    Args:
        batch: of B responses, K steps and N agents.
        returns: (K, N) of the steps, to each agent.
        config: see :class:`GroupConfig`.
    """
    own = np.flatnonzero(batch.trained)
    baseline = config.baseline
    out = np.zeros(len(batch.responses))
    out[own] = group_advantages(
        response_returns(returns, batch.step_response, len(batch.responses))[own],
        groups(batch, config.group_by)[own],
        baseline=_greedy_returns(batch, returns)[own] if baseline == "greedy" else baseline,
        standardize=config.standardize,
        eps=config.std_eps,
    )
    return out


def _greedy_returns(batch: Batch, returns: np.ndarray) -> np.ndarray:
    """(B,) for each response its agent's return of the greedy joint response at the same node."""
    at_node = np.zeros((len(batch.root), len(batch.agents)))
    steps = np.flatnonzero(batch.greedy)
    at_node[batch.step_node[steps]] = returns[steps]
    return at_node[batch.response_node, batch.response_agent]


def group_stats(batch: Batch, returns: np.ndarray, advantages: np.ndarray, by: GroupBy) -> dict[str, float]:
    """Diagnostics: ``advantage_std`` (over responses), ``zero_groups`` (share of groups whose returns are all equal)
    and, per agent, ``credit_variance`` (variance of the returns within a group, mean over groups)."""
    own = np.flatnonzero(batch.trained)
    values = response_returns(returns, batch.step_response, len(batch.responses))[own]
    _, first, index, count = np.unique(
        groups(batch, by)[own], return_index=True, return_inverse=True, return_counts=True
    )
    mean = np.bincount(index, weights=values) / count
    variance = np.bincount(index, weights=(values - mean[index]) ** 2) / count
    spread = np.bincount(index, weights=values != values[first][index])
    stats = {"advantage_std": float(advantages[own].std()), "zero_groups": float((spread == 0).mean())}
    for column, agent in enumerate(batch.agents):
        if (mine := batch.response_agent[own] == column).any():
            stats[f"{agent}/credit_variance"] = float(variance[np.unique(index[mine])].mean())
    return stats

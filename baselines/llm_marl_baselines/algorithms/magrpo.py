"""MAGRPO: multi-agent group relative policy optimisation (arXiv 2508.04652).

At every node all agents sample G responses from their own histories; joint actions of them earn one joint reward. The
return of a response minus the mean of its group is its advantage, one number that all agents share. Each agent
minimises - advantage * log pi(response | its own history).

The defaults are the paper's estimator: no division by the standard deviation, no importance ratio, no clipping, no KL,
a sum over tokens, a tree over turns in which a node at depth t weighs G^-t. What differs from the paper:

- sampling defaults to temperature 1 without truncation, so that it is on-policy (the paper: 0.7 and top-p 0.9);
- the discount is a setting that counts (``gamma``); the factor gamma^t in front of later turns is omitted, as there;
- options that the paper does not have, off by default: standardised advantages, other loss reductions, a KL term,
  chains instead of a tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..advantages import group_advantages, joint_rewards, response_returns, step_returns
from ..batch import Batch
from ..plan import Plan
from ..policies.base import TrainablePolicy
from ..update import LossConfig, accumulate_gradients


class MAGRPO:
    """See the module's docstring."""

    @dataclass(frozen=True)
    class Config:
        """MAGRPO's settings.

        Attributes:
            group_size: G, responses of each agent at a node (paper: 4). At least 2.
            shape: ``tree`` (paper) opens a branch per joint action; ``chains`` plays G trajectories side by side.
            pairing: ``aligned`` (paper) joins equal indices; ``cross`` takes all G^N combinations.
            gamma: discount over turns, from 0 to 1.
            standardize: divide advantages by the group's standard deviation plus ``std_eps`` (paper: no).
            std_eps: see ``standardize``; a spread far below it counts for little.
            joint_reward: ``sum`` or ``mean`` joins the rewards of agents that differ; by default that is an error.
            max_joint_actions: the most joint actions in one step's rollout.
            loss: how log-probabilities become a loss.
        """

        group_size: int = 4
        shape: Literal["tree", "chains"] = "tree"
        pairing: Literal["aligned", "cross"] = "aligned"
        gamma: float = 1.0
        standardize: bool = False
        std_eps: float = 1e-4
        joint_reward: Literal["sum", "mean"] | None = None
        max_joint_actions: int = 4096
        loss: LossConfig = field(default_factory=LossConfig)

        def __post_init__(self) -> None:
            if self.group_size < 2:
                raise ConfigError(f"group_size must be at least 2, not {self.group_size}: one response has no group.")
            if not 0 <= self.gamma <= 1:
                raise ConfigError(f"gamma must lie between 0 and 1, not {self.gamma}.")
            if not self.std_eps > 0:
                raise ConfigError(f"std_eps must be above 0, not {self.std_eps}.")

    def __init__(self, config: Config | None = None):
        self.config = config or self.Config()

    @property
    def plan(self) -> Plan:
        c = self.config
        return Plan(c.group_size, c.shape, c.pairing, c.max_joint_actions)

    def advantages(self, batch: Batch) -> np.ndarray:
        """(B,) advantage of every response."""
        rewards = joint_rewards(batch.rewards, batch.present, self.config.joint_reward)
        returns = step_returns(rewards, batch.parent, self.config.gamma)
        values = response_returns(returns, batch.step_response, len(batch.responses))
        return group_advantages(values, groups(batch), standardize=self.config.standardize, eps=self.config.std_eps)

    def update(self, batch: Batch, policy: TrainablePolicy) -> dict[str, float]:
        """Add the gradients of the batch. Diagnostics: ``advantage_std``, ``zero_groups`` (share of groups without
        spread), and per agent what :func:`~llm_marl_baselines.update.accumulate_gradients` returns."""
        advantages = self.advantages(batch)
        group = groups(batch)
        spread = np.bincount(np.unique(group, return_inverse=True)[1], weights=np.abs(advantages)) > 0
        stats = {"advantage_std": float(advantages.std()), "zero_groups": float(1 - spread.mean())}
        for agent in batch.agents:
            if len(batch.of_agent(agent)):
                own = accumulate_gradients(policy, batch, agent, advantages, self.config.loss)
                stats |= {f"{agent}/{name}": value for name, value in own.items()}
        return stats


def groups(batch: Batch) -> np.ndarray:
    """(B,) one number for each group of responses: same node (tree) or same turn of a root (chains), same agent."""
    return batch.group[batch.response_node] * len(batch.agents) + batch.response_agent

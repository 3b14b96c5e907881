"""MAGRPO: multi-agent group relative policy optimisation (arXiv 2508.04652), and the estimators around it.

At every node all agents sample G responses from their own histories; joint actions of them earn one joint reward. The
return of a response minus the mean of its group is its advantage, one number that all agents share. Each agent
minimises - advantage * log pi(response | its own history).

The defaults are the paper's estimator: no division by the standard deviation, no importance ratio, no clipping, no KL,
a sum over tokens, a tree over turns in which a node at depth t weighs G^-t. What differs from the paper:

- sampling defaults to temperature 1 without truncation, so that it is on-policy (the paper: 0.7 and top-p 0.9);
- the discount is a setting that counts (``gamma``); the factor gamma^t in front of later turns is omitted, as there;
- options that the paper does not have, off by default: other baselines and groups, standardised advantages, other loss
  reductions, a KL term, clipped ratios, chains instead of a tree, counterfactual credit.

Presets, each a packaged configuration of this class: ``marloo`` (leave-one-out), ``maremax`` (greedy joint response),
``mareinforce`` (no baseline), ``drmas`` and ``atgrpo`` (standardised per agent, per agent and turn),
``counterfactual``, and ``grpo``, where one model answers for all roles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..advantages import joint_rewards
from ..batch import Batch
from .group_relative import GroupConfig, GroupRelative


class MAGRPO(GroupRelative):
    """See the module's docstring."""

    @dataclass(frozen=True)
    class Config(GroupConfig):
        """MAGRPO's settings, beside those of every group-relative algorithm.

        Attributes:
            pairing: ``aligned`` (paper) joins equal indices; ``cross`` takes all G^N combinations.
            credit: ``joint`` (paper): a response is credited with what its joint actions earned. ``counterfactual``:
                with what changes when this agent alone answers anew, all else held: N * G joint actions a node, and
                the mean of the agent's other answers as baseline.
            joint_reward: ``sum`` or ``mean`` joins the rewards of agents that differ; by default that is an error.
        """

        pairing: Literal["aligned", "cross"] = "aligned"
        credit: Literal["joint", "counterfactual"] = "joint"
        joint_reward: Literal["sum", "mean"] | None = None

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.credit == "counterfactual":
                if self.pairing != "aligned" or self.shape != "tree":
                    raise ConfigError("credit=counterfactual pairs by itself and needs shape=tree and pairing=aligned.")
                if self.baseline != "loo" or self.group_by != "agent_turn":
                    raise ConfigError(
                        "credit=counterfactual compares an answer with the agent's other answers, so it takes "
                        f"baseline=loo and group_by=agent_turn; got {self.baseline} and {self.group_by}."
                    )

    config: Config

    @property
    def pairing(self) -> Literal["aligned", "cross", "held"]:
        return "held" if self.config.credit == "counterfactual" else self.config.pairing

    def rewards(self, batch: Batch) -> np.ndarray:
        """(K, N) the joint reward of every step, the same for all agents."""
        return joint_rewards(batch.rewards, batch.present, self.config.joint_reward)

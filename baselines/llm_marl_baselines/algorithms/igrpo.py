"""IGRPO: independent GRPO, to GRPO (arXiv 2402.03300) what IPPO is to PPO.

Every agent is a learner of its own: its own observations, its own rewards (the joint one where the environment pays no
other), its own group with its own standardisation. To each the others are part of the world.

``teammates="sampled"``, the field's usual way, plays the joint actions that MAGRPO plays. Under a joint reward every
agent then sees the same returns, and IGRPO is MAGRPO with ``standardize``: a test says so.

``teammates="fixed"``: at every node each agent first answers once; these answers are held while one agent at a time
draws its G responses, N * G joint actions a node. What differs within a group is then this agent's doing alone. With
the held answers nothing is learned. At equal group size the first turn plays N times the joint actions and samples
(G + 1) / G of the tokens, and every later turn has N times as many nodes to do it at: compare at both.

What differs from the paper: a sum over tokens instead of each response's mean, no ratio, no clipping, no KL by default
(``loss`` has them all); a tree over turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..batch import Batch
from .group_relative import GroupConfig, GroupRelative


class IGRPO(GroupRelative):
    """See the module's docstring."""

    @dataclass(frozen=True)
    class Config(GroupConfig):
        """IGRPO's settings, beside those of every group-relative algorithm.

        Attributes:
            standardize: as there, but on.
            teammates: ``sampled`` or ``fixed``; see the module's docstring.
        """

        standardize: bool = True
        teammates: Literal["sampled", "fixed"] = "sampled"

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.teammates == "fixed" and self.shape != "tree":
                raise ConfigError("teammates=fixed needs shape=tree: chains have one joint action for each response.")
            if self.group_by in ("turn", "root"):
                raise ConfigError(f"igrpo's agents have groups of their own: not group_by={self.group_by}.")

    config: Config

    @property
    def pairing(self) -> Literal["aligned", "cross", "held"]:
        return "held" if self.config.teammates == "fixed" else "aligned"

    def rewards(self, batch: Batch) -> np.ndarray:
        """(K, N) to each agent its own."""
        return batch.rewards

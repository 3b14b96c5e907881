"""Ranked: an algorithm that learns from which response of a group did better, not from how much better."""

from dataclasses import dataclass

import numpy as np

from llm_marl_baselines.advantages import joint_rewards, response_returns
from llm_marl_baselines.algorithms.group_relative import GroupConfig, GroupRelative, groups
from llm_marl_envs.errors import ConfigError


class Ranked(GroupRelative):
    """Each agent samples G responses; joint actions pair equal indices, as in MAGRPO."""

    @dataclass(frozen=True)
    class Config(GroupConfig):
        """Ranked's settings, beside those of every group-relative algorithm.

        Attributes:
            scale: the advantage of a response that beats all others of its group; above 0.
        """

        scale: float = 1.0

        def __post_init__(self):
            super().__post_init__()
            if not self.scale > 0:
                raise ConfigError(f"scale must be above 0, not {self.scale}.")

    pairing = "aligned"

    def rewards(self, batch):
        return joint_rewards(batch.rewards, batch.present, None)  # (K, N)

    def advantages(self, batch):
        own = np.flatnonzero(batch.trained)
        returns = response_returns(self.returns(batch), batch.step_response, len(batch.responses))  # (B,)
        out = np.zeros(len(batch.responses))
        out[own] = self.config.scale * ranks(returns[own], groups(batch, self.config.group_by)[own])
        return out


def ranks(returns, group):
    """(B,) from -1 (all others of the group did better) to 1 (all did worse); 0 in the middle and for ties."""
    others = group[:, None] == group  # (B, B)
    beaten = (others & (returns[:, None] > returns)).sum(axis=1)
    beating = (others & (returns[:, None] < returns)).sum(axis=1)
    return (beaten - beating) / np.maximum(others.sum(axis=1) - 1, 1)

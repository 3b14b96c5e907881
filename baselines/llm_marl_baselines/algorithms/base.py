"""What an algorithm is, to the trainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from llm_marl_envs.errors import ConfigError

from ..batch import Batch
from ..plan import Plan
from ..policies.base import TrainablePolicy
from ..update import LossConfig


@dataclass(frozen=True)
class AlgorithmConfig:
    """Settings that all algorithms of this package have.

    Attributes:
        group_size: G, responses of each agent at a node (MAGRPO's paper: 4).
        shape: ``tree`` (paper) opens a branch per joint action; ``chains`` plays G trajectories side by side.
        gamma: discount over turns, from 0 to 1.
        standardize: divide advantages by their spread plus ``std_eps``; each family says which spread.
        std_eps: see ``standardize``; a spread far below it counts for little.
        max_joint_actions: the most joint actions in one step's rollout.
        loss: how log-probabilities become a loss.
    """

    group_size: int = 4
    shape: Literal["tree", "chains"] = "tree"
    gamma: float = 1.0
    standardize: bool = False
    std_eps: float = 1e-4
    max_joint_actions: int = 4096
    loss: LossConfig = field(default_factory=LossConfig)

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ConfigError(f"group_size must be at least 1, not {self.group_size}.")
        if not 0 <= self.gamma <= 1:
            raise ConfigError(f"gamma must lie between 0 and 1, not {self.gamma}.")
        if not self.std_eps > 0:
            raise ConfigError(f"std_eps must be above 0, not {self.std_eps}.")


class Algorithm(ABC):
    """Turns batches into gradients. The trainer does the rest: rows, rollouts, optimisers, evaluation, logs and
    checkpoints.

    A subclass has a nested dataclass ``Config``; its fields are the settings under ``algorithm``.
    """

    Config: ClassVar[type[Any]]

    def __init__(self, config: Any = None):
        self.config = self.Config() if config is None else config

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """How the rollout branches, as the estimator needs it."""

    def prepare(self, policy: TrainablePolicy, agents: Sequence[str]) -> None:
        """Called once, before optimisers are made: the place to add critics to the policy. ``agents`` are those that
        the policy answers for, at least one; others may have seats without weights (an endpoint, a function)."""
        return None

    @abstractmethod
    def update(self, batch: Batch, policy: TrainablePolicy) -> Iterator[dict[str, float]]:
        """Add gradients to the policy's parameters, then yield diagnostics by name. After every yield the trainer
        takes an optimiser step and clears the gradients: an algorithm that goes over a batch E times yields E times.
        What is logged is the mean over those yields that have the name."""

"""What an algorithm is, to the trainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ..batch import Batch
from ..plan import Plan
from ..policies.base import TrainablePolicy


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
        """Called once, before optimisers are made: the place to add critics to the policy."""
        return None

    @abstractmethod
    def update(self, batch: Batch, policy: TrainablePolicy) -> Iterator[dict[str, float]]:
        """Add gradients to the policy's parameters, then yield diagnostics by name. After every yield the trainer
        takes an optimiser step and clears the gradients: an algorithm that goes over a batch E times yields E times.
        What is logged is the mean over those yields that have the name."""

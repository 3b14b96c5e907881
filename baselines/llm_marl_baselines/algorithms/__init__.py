"""THE TABLE of algorithms: one readable file each. A third party passes ``"package.module:Class"``.

An algorithm is a class with a nested ``Config`` dataclass and two methods:

``plan``            the :class:`~llm_marl_baselines.plan.Plan` that its estimator needs
``update(batch, policy)``   adds the gradients of one batch to the policy's parameters, returns diagnostics by name

The trainer does the rest: rows, rollouts, optimisers, evaluation, logs and checkpoints.
"""

from __future__ import annotations

from typing import Any, Protocol

from llm_marl_envs.tables import Table

from ..batch import Batch
from ..plan import Plan
from ..policies.base import TrainablePolicy


class Algorithm(Protocol):
    """See the module's docstring."""

    Config: type[Any]

    def __init__(self, config: Any): ...

    @property
    def plan(self) -> Plan: ...

    def update(self, batch: Batch, policy: TrainablePolicy) -> dict[str, float]: ...


ALGORITHMS = Table("algorithm", {"magrpo": "llm_marl_baselines.algorithms.magrpo:MAGRPO"})

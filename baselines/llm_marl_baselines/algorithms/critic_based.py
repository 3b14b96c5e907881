"""What actor-critic algorithms share: their settings, their critics' updates, and the order of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..advantages import response_returns, td_advantages
from ..batch import Batch
from ..plan import Plan
from ..policies.base import TrainablePolicy
from ..update import policy_updates
from .base import Algorithm, AlgorithmConfig


@dataclass(frozen=True)
class CriticConfig:
    """How a critic is trained. Its learning rate is ``optim.critic_lr``.

    Attributes:
        epochs: passes over a batch, an optimiser step each.
        weights: ``adapter``: an adapter of the critic's own on the base model. ``actor``: a value head on the actor's
            weights, which the critic's loss moves too, ``coef`` times (decentralised critics only).
        warmup: the first batch teaches the critic alone. The advantages of an untrained critic have mostly one sign:
            whatever was sampled first is reinforced, and several passes over it can settle a policy for good.
        coef: of the critic's loss. With an optimiser such as AdamW it matters where critic and actor share weights.
    """

    epochs: int = 1
    weights: Literal["adapter", "actor"] = "adapter"
    warmup: bool = False
    coef: float = 0.5

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ConfigError(f"critic.epochs must be at least 1, not {self.epochs}.")
        if not self.coef > 0:
            raise ConfigError(f"critic.coef must be above 0, not {self.coef}.")


@dataclass(frozen=True)
class ActorCriticConfig(AlgorithmConfig):
    """Settings of an actor-critic algorithm, beside those of every algorithm. No group is needed: group_size=1 will do.

    Attributes:
        standardize: divide an agent's advantages by their root mean square over the batch plus ``std_eps``. They are
            not centred: with one start in a batch that would take away what the critic says.
        lam: GAE's lambda: 0 is the one-step TD error (arXiv 2601.21972), 1 the return minus the value.
        critic: how the critic is trained.
    """

    lam: float = 0.0
    critic: CriticConfig = field(default_factory=CriticConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lam <= 1:
            raise ConfigError(f"lam must lie between 0 and 1, not {self.lam}.")


class ActorCritic(Algorithm):
    """An algorithm whose advantages come from critics."""

    config: ActorCriticConfig

    @property
    def plan(self) -> Plan:
        c = self.config
        return Plan(c.group_size, c.shape, max_joint_actions=c.max_joint_actions)

    def value_targets(
        self, batch: Batch, rewards: np.ndarray, values: np.ndarray, acts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(K,) advantages of the steps to one agent, or to all, and (M,) what V has to be at the nodes: V plus the
        mean advantage there.

        Args:
            batch: of K steps and M nodes.
            rewards: (K,)
            values: (M,) V at the nodes where ``acts`` (M,) bool.
        """
        advantages = td_advantages(
            rewards,
            values,
            acts,
            batch.step_node,
            batch.next_node,
            batch.step_share,
            gamma=self.config.gamma,
            lam=self.config.lam,
        )
        gain = np.bincount(batch.step_node, batch.step_share * advantages, minlength=len(values))
        return advantages, values + gain


@dataclass(frozen=True)
class Fit:
    """What a critic is to learn from a batch: texts (token ids), targets and weights, of equal length."""

    texts: Sequence[np.ndarray]
    targets: np.ndarray
    weights: np.ndarray


def updates(
    policy: TrainablePolicy,
    batch: Batch,
    advantages: np.ndarray,
    fits: Mapping[str, Fit],
    config: ActorCriticConfig,
    stats: Mapping[str, float],
) -> Iterator[dict[str, float]]:
    """Passes over the batch: in each the actors' gradients (``loss.epochs`` times) and the critics'
    (``critic.epochs`` times), each critic's once, whoever its agents are. Yields as Algorithm.update does.

    The advantages are those of the critic before it learned from this batch.
    """
    if config.critic.warmup and any(policy.critics.is_fresh(name) for name in fits):
        advantages = np.zeros_like(advantages)
    actors = policy_updates(policy, batch, advantages, config.loss, stats)
    for epoch in range(max(config.loss.epochs, config.critic.epochs)):
        found = next(actors) if epoch < config.loss.epochs else {}
        if epoch < config.critic.epochs:
            for name, fit in fits.items():
                loss = policy.critics.fit(
                    name, fit.texts, fit.targets, config.critic.coef * fit.weights, first=epoch == 0
                )
                found[f"{name}/loss"] = loss
        yield found


def response_advantages(batch: Batch, advantages: np.ndarray, config: ActorCriticConfig) -> np.ndarray:
    """(B,) the advantage of every response from (K, N) those of the steps, standardised per agent if asked for."""
    out = response_returns(advantages, batch.step_response, len(batch.responses))
    if config.standardize:
        for column in range(len(batch.agents)):
            mine = (batch.response_agent == column) & batch.trained
            if mine.any():
                out[mine] /= np.sqrt(np.mean(out[mine] ** 2)) + config.std_eps
    return np.where(batch.trained, out, 0.0)


def explained_variance(values: np.ndarray, returns: np.ndarray) -> dict[str, float]:
    """``explained_variance``: 1 - Var(return - V) / Var(return), at most 1; left out where the returns do not vary."""
    if len(returns) < 2 or (spread := float(np.var(returns))) < 1e-12:
        return {}
    return {"explained_variance": 1 - float(np.var(returns - values)) / spread}

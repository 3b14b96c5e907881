"""MAAC: multi-agent actor-critic with one centralised critic (CTDE; arXiv 2601.21972), and MAPPO.

The critic reads the joint history, all that every agent saw and did, which no agent sees when it acts; the actors stay
decentralised. ``critic_of="v"``: V(h); an actor's weight is the TD error r + gamma V(next) - V(h), or GAE with ``lam``.
``critic_of="q"``: Q(h, joint action), fitted to r + gamma * (mean of Q over the joint actions sampled next); an
actor's weight is Q(h, a) minus the mean of Q over the other joint actions sampled at h, since a TD error averages to
zero at the true Q. It is one number for all agents.

The critic is one adapter more on the first agent's base model, with a linear head, and takes one optimiser step a
pass, not one for each agent. Nothing is bootstrapped at the end of an episode, truncated or not.

``mappo`` (arXiv 2103.01955) is this class with GAE, clipped ratios, several passes over a batch and standardised
advantages: ``configs/mappo.yaml``.

A centralised critic need not lower the variance of the gradient (arXiv 2102.04402);
``critic/joint/explained_variance`` says what it explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..advantages import joint_rewards, leave_one_out, step_returns
from ..batch import Batch
from ..policies.base import TrainablePolicy
from .critic_based import ActorCritic, ActorCriticConfig, Fit, explained_variance, response_advantages, updates

CRITIC = "critic/joint"  # no agent of that name: learners of agents have their names


class MAAC(ActorCritic):
    """See the module's docstring."""

    @dataclass(frozen=True)
    class Config(ActorCriticConfig):
        """MAAC's settings, beside those of every actor-critic algorithm.

        Attributes:
            critic_of: ``v`` or ``q``; see the module's docstring.
            critic_input: ``history``: the joint history as the rollout recorded it. ``state``: the environment's
                ``state()``.
            joint_reward: ``sum`` or ``mean`` joins the rewards of agents that differ; by default that is an error.
        """

        critic_of: Literal["v", "q"] = "v"
        critic_input: Literal["history", "state"] = "history"
        joint_reward: Literal["sum", "mean"] | None = None

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.critic.weights != "adapter":
                raise ConfigError("A centralised critic reads what no actor sees, so critic.weights=adapter.")
            if self.critic_of == "q":
                if self.shape != "tree" or self.group_size < 2:
                    raise ConfigError(
                        "critic_of=q compares the joint actions of a node, so it needs shape=tree and group_size of at "
                        f"least 2; got {self.shape} and {self.group_size}."
                    )
                if self.lam:
                    raise ConfigError(f"critic_of=q has one-step targets: lam=0, not {self.lam}.")
                if self.critic_input != "history":
                    raise ConfigError("critic_of=q reads the history with the joint action: critic_input=history.")

    config: Config

    def prepare(self, policy: TrainablePolicy, agents: Sequence[str]) -> None:
        policy.critics.add(CRITIC, agents[0])

    def update(self, batch: Batch, policy: TrainablePolicy) -> Iterator[dict[str, float]]:
        """Passes of actors and critic. Diagnostics: ``critic/joint/loss``, ``critic/joint/explained_variance``,
        ``advantage_std``, and per agent those of :func:`~llm_marl_baselines.update.accumulate_gradients`."""
        rewards = joint_rewards(batch.rewards, batch.present, self.config.joint_reward)[:, 0]
        advantages, values, fit = (self._from_v if self.config.critic_of == "v" else self._from_q)(
            batch, policy, rewards
        )
        returns = step_returns(rewards, batch.parent, self.config.gamma, batch.step_share)
        own = response_advantages(batch, np.repeat(advantages[:, None], len(batch.agents), axis=1), self.config)
        stats = {"advantage_std": float(own[batch.trained].std())}
        stats |= {f"{CRITIC}/{name}": v for name, v in explained_variance(values, returns).items()}
        yield from updates(policy, batch, own, {CRITIC: fit}, self.config, stats)

    def _from_v(self, batch: Batch, policy: TrainablePolicy, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray, Fit]:
        """(K,) advantages, (K,) values of the steps' nodes, and what V has to learn."""
        texts = [policy.critics.encode(CRITIC, text) for text in self._inputs(batch)]
        values = policy.critics.values(CRITIC, texts)  # (M,)
        advantages, targets = self.value_targets(batch, rewards, values, np.ones(len(values), dtype=bool))
        return advantages, values[batch.step_node], Fit(texts, targets, batch.node_weight / batch.num_roots)

    def _inputs(self, batch: Batch) -> Sequence[str]:
        if self.config.critic_input == "history":
            return batch.histories
        if any(state is None for state in batch.states):
            raise ConfigError("critic_input=state, but the environment has no state(). Use critic_input=history.")
        return [str(state) for state in batch.states]

    def _from_q(self, batch: Batch, policy: TrainablePolicy, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray, Fit]:
        """(K,) advantages, (K,) values of the steps, and what Q has to learn."""
        texts = [policy.critics.encode(CRITIC, text) for text in batch.step_histories]
        values = policy.critics.values(CRITIC, texts)  # (K,)
        at_node = np.bincount(batch.step_node, batch.step_share * values, minlength=len(batch.root))
        ends = batch.next_node < 0
        targets = rewards + self.config.gamma * np.where(ends, 0.0, at_node[batch.next_node])
        weights = batch.node_weight[batch.step_node] * batch.step_share / batch.num_roots
        return leave_one_out(values, batch.step_node), values, Fit(texts, targets, weights)

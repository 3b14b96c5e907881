"""IAC: independent actor-critic, and IPPO. Every agent has a critic of its own history, V_i(h_i), and its own rewards.

It is the comparison that shows what a centralised critic is good for (arXiv 2601.21972): it does as well on short
tasks with dense rewards, and worse on long or sparse ones. V_i reads exactly the tokens that the agent was asked with.
Agents that share weights share a critic.

``critic.weights="adapter"``: an adapter of the critic's own. ``"actor"``: a value head on the actor's weights.

``ippo`` (arXiv 2011.09533) is this class with GAE, clipped ratios, several passes over a batch and standardised
advantages: ``configs/ippo.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..advantages import step_returns
from ..batch import Batch
from ..policies.base import TrainablePolicy
from .critic_based import ActorCritic, ActorCriticConfig, Fit, explained_variance, response_advantages, updates


class IAC(ActorCritic):
    """See the module's docstring."""

    @dataclass(frozen=True)
    class Config(ActorCriticConfig):
        """IAC's settings: those of every actor-critic algorithm."""

    config: Config

    def prepare(self, policy: TrainablePolicy, agents: Sequence[str]) -> None:
        for agent in agents:
            if policy.trains(agent) and (name := critic_of(policy, agent)) not in policy.critics.names:
                policy.critics.add(name, agent, head_only=self.config.critic.weights == "actor")

    def update(self, batch: Batch, policy: TrainablePolicy) -> Iterator[dict[str, float]]:
        """Passes of actors and critics. Diagnostics: ``advantage_std``, ``critic/LEARNER/loss``, per agent
        ``explained_variance`` and those of :func:`~llm_marl_baselines.update.accumulate_gradients`."""
        config = self.config
        stats: dict[str, float] = {}
        advantages = np.zeros(batch.rewards.shape)
        returns = step_returns(batch.rewards, batch.parent, config.gamma, batch.step_share)
        parts: dict[str, list[Fit]] = {}
        for column, agent in enumerate(batch.agents):
            first = first_responses(batch, column)
            if not policy.trains(agent) or not first:
                continue
            name, nodes = critic_of(policy, agent), np.array(list(first))
            texts = [batch.responses[b].prompt_ids for b in first.values()]
            acts, values = np.zeros(len(batch.root), dtype=bool), np.zeros(len(batch.root))
            acts[nodes] = True
            values[nodes] = policy.critics.values(name, texts)
            advantages[:, column], targets = self.value_targets(batch, batch.rewards[:, column], values, acts)
            part = Fit(texts, targets[nodes], batch.node_weight[nodes] / batch.num_roots)
            parts.setdefault(name, []).append(part)
            asked = acts[batch.step_node]
            found = explained_variance(values[batch.step_node][asked], returns[asked, column])
            stats |= {f"{agent}/{key}": value for key, value in found.items()}
        own = response_advantages(batch, advantages, config)
        stats["advantage_std"] = float(own[batch.trained].std())
        fits = {name: _joined(members) for name, members in parts.items()}
        yield from updates(policy, batch, own, fits, config, stats)


def critic_of(policy: TrainablePolicy, agent: str) -> str:
    """The name of the agent's critic: agents that share weights share it."""
    return f"critic/{policy.learner_of(agent)}"


def first_responses(batch: Batch, column: int) -> dict[int, int]:
    """Node -> the agent's first response there: all of them answer the same prompt."""
    found: dict[int, int] = {}
    for b in np.flatnonzero(batch.response_agent == column).tolist():
        found.setdefault(int(batch.response_node[b]), b)
    return found


def _joined(parts: Sequence[Fit]) -> Fit:
    texts = [text for part in parts for text in part.texts]
    return Fit(texts, np.concatenate([p.targets for p in parts]), np.concatenate([p.weights for p in parts]))

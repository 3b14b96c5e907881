"""Turns a batch and its advantages into gradients: the part that all policy-gradient algorithms share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from llm_marl_envs.errors import ConfigError

from . import parallel
from .batch import Batch
from .errors import NonFiniteError
from .losses import (
    Reduction,
    clipped_ratio,
    effective_sample_share,
    importance_weights,
    kl_to_reference,
    length_scale,
    policy_gradient,
)
from .policies.base import Response, TrainablePolicy

IMPORTANCE_CAP = 2.0  # where another engine samples: a usual value, such as ms-swift's


@dataclass(frozen=True)
class LossConfig:
    """How token log-probabilities become a loss.

    Attributes:
        reduction: ``sequence`` sums over a response's tokens (MAGRPO's paper), ``response`` takes each response's mean
            (GRPO's), ``token`` the mean over all tokens, ``fixed`` divides the sum by ``fixed_length``.
        fixed_length: tokens, for ``fixed``.
        kl_coef: weight of the KL to the reference policy; 0 (the paper) leaves the reference out altogether.
        log_kl: log the KL to the reference policy where ``kl_coef`` is 0, too; it costs a forward pass.
        clip_range: PPO's epsilon. Unset: log-probabilities themselves, without ratios (the paper).
        epochs: passes over a batch, an optimiser step each. More than 1 needs ``clip_range``: from the second pass on
            the policy is no longer the one that sampled.
        importance_cap: weigh every token with min(pi / mu, importance_cap), where mu is what it was sampled from and pi
            the policy at the start of the update (:func:`~llm_marl_baselines.losses.importance_weights`); 0 switches it
            off. Unset: 2 where another engine samples (``sampler``), else off, since they then agree.
    """

    reduction: Reduction = "sequence"
    fixed_length: int = 0
    kl_coef: float = 0.0
    log_kl: bool = False
    clip_range: float | None = None
    epochs: int = 1
    importance_cap: float | None = None

    def __post_init__(self) -> None:
        length_scale(self.reduction, np.ones(1), np.ones(1), self.fixed_length)
        if not self.kl_coef >= 0:
            raise ConfigError(f"loss.kl_coef must be at least 0, not {self.kl_coef}.")
        if self.clip_range is not None and not 0 < self.clip_range < 1:
            raise ConfigError(f"loss.clip_range must lie between 0 and 1, not {self.clip_range}; PPO's is 0.2.")
        if self.epochs < 1:
            raise ConfigError(f"loss.epochs must be at least 1, not {self.epochs}.")
        if self.epochs > 1 and self.clip_range is None:
            raise ConfigError(
                f"loss.epochs={self.epochs} needs loss.clip_range (PPO's is 0.2): after the first pass the samples are "
                "no longer the policy's own, and only a clipped ratio keeps it near them."
            )
        if self.importance_cap is not None and not (self.importance_cap == 0 or self.importance_cap >= 1):
            raise ConfigError(
                f"loss.importance_cap must be at least 1, or 0 for none, not {self.importance_cap}: tokens on which "
                "sampler and trainer agree have the weight 1."
            )

    def importance_cap_for(self, policy: TrainablePolicy) -> float:
        """The cap that holds for the policy, 0 for none."""
        if self.importance_cap is None:
            return IMPORTANCE_CAP if policy.separate_sampler else 0.0
        return self.importance_cap


def policy_updates(
    policy: TrainablePolicy, batch: Batch, advantages: np.ndarray, config: LossConfig, stats: Mapping[str, float]
) -> Iterator[dict[str, float]]:
    """For each epoch add the gradients of all agents that are trained, and yield ``AGENT/NAME`` diagnostics of
    :func:`accumulate_gradients`; the first ones with ``stats`` beside them. An optimiser step follows each yield."""
    starts: dict[str, dict[int, torch.Tensor]] = {agent: {} for agent in batch.agents}
    for epoch in range(config.epochs):
        found = dict(stats) if epoch == 0 else {}
        for agent in batch.agents:
            if policy.trains(agent) and len(batch.of_agent(agent)):
                own = accumulate_gradients(policy, batch, agent, advantages, config, starts[agent])
                # After the first step a gap says what the step did, not how well sampling and scoring agree.
                found |= {f"{agent}/{name}": v for name, v in own.items() if epoch == 0 or name != "logprob_gap"}
        yield found


def accumulate_gradients(
    policy: TrainablePolicy,
    batch: Batch,
    agent: str,
    advantages: np.ndarray,
    config: LossConfig,
    start: dict[int, torch.Tensor] | None = None,
) -> dict[str, float]:
    """Add the gradient of one agent's loss, averaged over the batch's roots, to its parameters' ``.grad``.

    Of several processes each adds the part of its own roots; what is returned is of all.

    Args:
        policy: scores the agent's responses.
        batch: of B responses, the same in every process.
        agent: whose responses to learn from.
        advantages: (B,)
        config: see :class:`LossConfig`.
        start: with importance weights, the responses' log-probabilities at the start of the update: filled in its first
            pass, read in later ones. None: this is the only pass.

    Returns:
        ``loss``, and where they were computed ``entropy`` (nats per token), ``kl`` (to the reference, nats per token),
        ``clipped_ratio_share`` (of tokens) and ``logprob_gap`` (largest difference between log-probs at sampling and
        now, absolute). With importance weights also, over tokens, ``importance_mean``, ``importance_max``,
        ``importance_ess`` (effective sample size, as a share) and ``importance_capped_share``. Responses without an
        advantage cost nothing and are left out of these, unless the KL needs them.

    Raises:
        NonFiniteError: the loss is NaN or infinite.
    """
    mine = batch.of_agent(agent)
    weights = batch.weight[mine] / batch.num_roots
    lengths = np.array([len(batch.responses[b].token_ids) for b in mine])
    if (lengths == 0).any():
        raise ConfigError(
            f"A response of agent {agent!r} has no tokens: its policy does not sample, so it cannot be trained."
        )
    weights = weights / length_scale(config.reduction, lengths, weights, config.fixed_length)
    used = np.ones(len(mine), dtype=bool) if config.kl_coef else advantages[mine] != 0
    if not used.any():
        return {"loss": 0.0}
    here = np.isin(batch.root[batch.response_node[mine]], parallel.block(batch.num_roots)) & used
    responses = [batch.responses[b] for b in mine[here]]
    parts = parallel.exchange(
        lambda: _accumulate(
            policy, agent, responses, advantages[mine][here], weights[here], config, {} if start is None else start
        )
    )
    sums = ("loss", "kl", "entropy", "clipped", "weights", "squares", "capped")
    total = {name: sum(part[name] for part in parts) for name in sums}
    count = float(lengths[used].sum())
    stats = {
        "loss": total["loss"],
        "entropy": total["entropy"] / count,
        "logprob_gap": max(part["gap"] for part in parts),
    }
    if config.kl_coef > 0 or config.log_kl:
        stats["kl"] = total["kl"] / count
    if config.clip_range is not None:
        stats["clipped_ratio_share"] = total["clipped"] / count
    if config.importance_cap_for(policy):
        stats["importance_mean"] = total["weights"] / count
        stats["importance_max"] = max(part["largest"] for part in parts)
        stats["importance_ess"] = effective_sample_share(total["weights"], total["squares"], count)
        stats["importance_capped_share"] = total["capped"] / count
    return stats


def _accumulate(
    policy: TrainablePolicy,
    agent: str,
    responses: Sequence[Response],
    advantages: np.ndarray,
    weights: np.ndarray,
    config: LossConfig,
    start: dict[int, torch.Tensor],
) -> dict[str, float]:
    """Add the gradient of some responses (b) with their advantages and weights (b,). Returns sums over responses, or
    over their tokens: ``loss``, ``kl``, ``entropy``, ``clipped``, those of importance weights; and the largest ``gap``
    and weight."""
    adv, w = torch.from_numpy(advantages), torch.from_numpy(weights)
    prompts, tokens = [r.prompt_ids for r in responses], [r.token_ids for r in responses]
    reference: dict[int, torch.Tensor] = {}
    wants_kl = config.kl_coef > 0 or config.log_kl
    if wants_kl and responses:
        for scored in policy.score(agent, prompts, tokens, reference=True, grad=False):
            reference |= {int(i): row for i, row in zip(scored.index, scored.logprobs, strict=True)}
    loss_sum = kl_sum = entropy_sum = gap = 0.0
    clipped = 0
    cap = config.importance_cap_for(policy)
    weighed = {"weights": 0.0, "squares": 0.0, "capped": 0.0, "largest": 0.0}
    for scored in policy.score(agent, prompts, tokens) if responses else ():
        index, mask, logprobs = scored.index.cpu(), scored.mask, scored.logprobs
        width = logprobs.shape[1]
        rows_adv, rows_w = (v[index].to(logprobs) for v in (adv, w))
        sampled = [torch.from_numpy(responses[int(i)].logprobs) for i in index]
        old = torch.stack([_padded(row, width) for row in sampled]).to(logprobs)
        importance = None
        if cap:
            for i, row in zip(index.tolist(), logprobs.detach(), strict=True):
                start.setdefault(i, row)
            drawn, old = old, torch.stack([_padded(start[int(i)], width) for i in index])
            importance, found = importance_weights(old, drawn, mask, cap)
            largest = max(weighed["largest"], found["largest"])
            weighed = {name: weighed[name] + found[name] for name in found} | {"largest": largest}
        if config.clip_range is None:
            loss = policy_gradient(logprobs, mask, rows_adv, rows_w, importance)
        else:
            loss, cut = clipped_ratio(logprobs, old, mask, rows_adv, rows_w, config.clip_range, importance)
            clipped += cut
        if wants_kl:
            base = torch.stack([_padded(reference[int(i)], width) for i in index]).to(logprobs)
            if config.kl_coef:
                loss = loss + config.kl_coef * kl_to_reference(logprobs, base, mask, rows_w)
            kl_sum += float(kl_to_reference(logprobs.detach(), base, mask, torch.ones_like(rows_w)))
        if not torch.isfinite(loss):
            raise NonFiniteError(f"the loss of agent {agent!r} is {loss.item()}")
        loss.backward()
        loss_sum += float(loss.detach())
        entropy_sum += float(scored.entropy.sum())
        gap = max(gap, _largest_gap(logprobs.detach(), mask, sampled))
    return {"loss": loss_sum, "kl": kl_sum, "entropy": entropy_sum, "clipped": clipped, "gap": gap} | weighed


def _padded(row: torch.Tensor, width: int) -> torch.Tensor:
    return torch.nn.functional.pad(row[:width], (0, max(width - len(row), 0)))


def _largest_gap(logprobs: torch.Tensor, mask: torch.Tensor, sampled: Sequence[torch.Tensor]) -> float:
    gap = 0.0
    for row, keep, then in zip(logprobs, mask, sampled, strict=True):
        gap = max(gap, float((row[keep] - then.to(row)).abs().max()))
    return gap

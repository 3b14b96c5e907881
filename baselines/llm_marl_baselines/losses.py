"""Losses: pure functions on tensors. All are sums over responses, so that micro-batches add up to the whole batch.

Shapes: b responses in the micro-batch, T tokens at most.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from llm_marl_envs.errors import ConfigError

Reduction = Literal["sequence", "response", "token", "fixed"]


def length_scale(
    reduction: Reduction, lengths: np.ndarray, weights: np.ndarray, fixed_length: int
) -> float | np.ndarray:
    """What the sum over a response's tokens is divided by: a number for the whole batch of an agent, or (b,).

    ``sequence``: 1, the sum as in MAGRPO's paper. ``response``: the response's own length, as in GRPO (arXiv
    2402.03300), which makes long wrong answers cheap. ``token``: the weighted mean length, so that in a single turn the
    loss is a mean over all tokens (over several turns, where weights fall with depth, a weighted one). ``fixed``:
    ``fixed_length``, as in Dr. GRPO (arXiv 2503.20783).
    """
    if reduction == "sequence":
        return 1.0
    if reduction == "response":
        return np.maximum(lengths, 1).astype(np.float64)
    if reduction == "token":
        return float(np.average(lengths, weights=weights)) if len(lengths) and weights.sum() > 0 else 1.0
    if reduction == "fixed":
        if fixed_length < 1:
            raise ConfigError(f"loss.reduction=fixed needs loss.fixed_length of at least 1, not {fixed_length}.")
        return float(fixed_length)
    raise ConfigError(f"loss.reduction is sequence, response, token or fixed, not {reduction!r}.")


def policy_gradient(
    logprobs: torch.Tensor, mask: torch.Tensor, advantages: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """- sum over responses of weight * advantage * log pi(response), where log pi sums over its tokens.

    Args:
        logprobs: (b, T), with gradient.
        mask: (b, T) bool.
        advantages, weights: (b,).
    """
    return -(weights * advantages * (logprobs * mask).sum(dim=1)).sum()


def clipped_ratio(
    logprobs: torch.Tensor,
    sampled: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    clip_range: float,
) -> tuple[torch.Tensor, int]:
    """PPO's loss (arXiv 1707.06347, eq. 7) for every token: - sum of weight * min(ratio * A, clip(ratio) * A), where
    ratio = pi(token) / pi(token) at sampling and clip keeps it within 1 +- ``clip_range``.

    Args:
        logprobs: (b, T), with gradient.
        sampled: (b, T) log-probabilities at sampling.
        mask: (b, T) bool.
        advantages, weights: (b,).
        clip_range: above 0.

    Returns:
        the loss, and the number of tokens whose gradient the clip takes away.
    """
    ratio = torch.exp(torch.where(mask, logprobs - sampled, 0.0))
    adv = advantages[:, None]
    free, held = ratio * adv, ratio.clamp(1 - clip_range, 1 + clip_range) * adv
    loss = -(weights[:, None] * torch.minimum(free, held) * mask).sum()
    return loss, int(((held < free) & mask).sum())


def kl_to_reference(
    logprobs: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Sum over responses of weight * sum over tokens of an estimate of KL(policy || reference).

    Per token it is exp(d) - d - 1 with d = log reference - log policy: never negative, and unbiased for tokens that
    the policy sampled (J. Schulman, "Approximating KL divergence", 2020; GRPO, arXiv 2402.03300, eq. 4).
    """
    d = torch.where(mask, reference - logprobs, 0.0)
    return (weights * (torch.exp(d) - d - 1).sum(dim=1)).sum()

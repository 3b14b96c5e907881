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
    logprobs: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    importance: torch.Tensor | None = None,
) -> torch.Tensor:
    """- sum over responses of weight * advantage * log pi(response), where log pi sums over its tokens.

    Args:
        logprobs: (b, T), with gradient.
        mask: (b, T) bool.
        advantages, weights: (b,).
        importance: (b, T), what every token counts beside; see :func:`importance_weights`. None: 1.
    """
    counted = logprobs * mask if importance is None else logprobs * mask * importance
    return -(weights * advantages * counted.sum(dim=1)).sum()


def importance_weights(
    trained: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor, cap: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """What each token counts where another engine sampled than the one that trains: min(pi(token) / mu(token), cap).

    The two compute one policy with different kernels, precision or cuts (top-p, top-k), so that the sampler draws from
    mu, and pi is what is trained. Token-level truncated importance sampling (F. Yao et al., "Your Efficient RL
    Framework Secretly Brings You Off-Policy RL Training", 2025; the truncation is that of E. Ionides, "Truncated
    Importance Sampling", 2008) multiplies each token's term of the gradient by this weight:

        gradient = - E_mu[ sum over tokens of A * min(pi / mu, cap) * grad log pi(token) ]

    Without the cap that is exact for responses of one token. In longer ones the ratios of the tokens before are left
    out: their product would be exact, and has a variance that grows with the length. The cap bounds the variance, and
    tokens which the sampler hardly ever draws count for less than they should.

    Args:
        trained: (b, T) log-probabilities of the policy that is trained, at the start of the update.
        sampled: (b, T) log-probabilities under the distribution that was sampled from.
        mask: (b, T) bool.
        cap: above 0.

    Returns:
        The weights (b, T), detached, 1 where ``mask`` is False; and of the tokens the sums of their ``weights`` and
        ``squares``, the ``largest`` weight and how many are ``capped``. Without tokens all four are 0.
    """
    ratio = torch.exp(torch.where(mask, trained - sampled, 0.0)).detach()
    weights = ratio.clamp(max=cap)
    tokens = weights[mask].double()
    found = {"weights": tokens.sum(), "squares": (tokens**2).sum(), "capped": (ratio[mask] > cap).sum()}
    sums = {name: float(value) for name, value in found.items()}
    return weights, sums | {"largest": float(tokens.max()) if len(tokens) else 0.0}


def effective_sample_share(weights: float, squares: float, count: float) -> float:
    """The effective sample size of ``count`` weighted samples, (sum of weights)^2 / sum of squares (A. Kong, 1992), as
    a share of their number: 1 if all weights are equal, 1 / count if one has everything, 0 if none has anything.

    Args:
        weights, squares: sums over the samples.
        count: at least 1.
    """
    return weights**2 / (count * squares) if squares > 0 else 0.0


def clipped_ratio(
    logprobs: torch.Tensor,
    sampled: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    clip_range: float,
    importance: torch.Tensor | None = None,
) -> tuple[torch.Tensor, int]:
    """PPO's loss (arXiv 1707.06347, eq. 7) for every token: - sum of weight * min(ratio * A, clip(ratio) * A), where
    ratio = pi(token) / pi_old(token) and clip keeps it within 1 +- ``clip_range``.

    Where another engine sampled, pi_old is the trained policy at the start of the update, and each token counts
    ``importance`` times, which stands for pi_old / mu: the clip then holds the update near the policy that it began
    with, and the difference of the engines does not use up its range.

    Args:
        logprobs: (b, T), with gradient.
        sampled: (b, T) log-probabilities under pi_old: at sampling, or with ``importance`` at the start of the update.
        mask: (b, T) bool.
        advantages, weights: (b,).
        clip_range: above 0.
        importance: (b, T), detached; see :func:`importance_weights`. None: 1.

    Returns:
        the loss, and the number of tokens whose gradient the clip takes away.
    """
    ratio = torch.exp(torch.where(mask, logprobs - sampled, 0.0))
    adv = advantages[:, None]
    free, held = ratio * adv, ratio.clamp(1 - clip_range, 1 + clip_range) * adv
    counted = mask if importance is None else mask * importance
    loss = -(weights[:, None] * torch.minimum(free, held) * counted).sum()
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

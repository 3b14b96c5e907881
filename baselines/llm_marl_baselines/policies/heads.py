"""From hidden states to the log-probabilities of tokens, without the logits of a whole batch.

Logits are as wide as the vocabulary: 50,000 numbers a token where the hidden state has 600. They are computed a few
rows at a time and thrown away. For the backward pass the forward pass keeps what is as narrow as a hidden state: the
mean of the output embeddings under the distribution. The derivative of log p(token) with respect to the hidden state is
the token's embedding minus that mean.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

CHUNK_LOGITS = 1 << 24  # logits that are held at once: 64 MB in float32, a few times over


class _LinearHead(torch.autograd.Function):
    """log softmax((hidden @ weight.T + bias) / temperature) at chosen entries."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, source, target, temperature):
        wide = _wide(hidden.dtype)
        normaliser = torch.empty(len(hidden), dtype=wide, device=hidden.device)  # (M,)
        entropy = torch.empty_like(normaliser)
        mean = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None  # (M, D)
        chosen = torch.empty(len(source), dtype=wide, device=hidden.device)
        for rows in _chunks(len(hidden), len(weight)):
            scaled = torch.nn.functional.linear(hidden[rows], weight, bias).to(wide).div_(temperature)  # (m, V)
            here = (source >= rows.start) & (source < rows.stop)
            chosen[here] = scaled[source[here] - rows.start, target[here]]
            normaliser[rows] = torch.logsumexp(scaled, dim=-1)
            shares = (scaled - normaliser[rows, None]).exp_()
            # Tokens that the model rules out (-inf) count 0.
            entropy[rows] = normaliser[rows] - torch.linalg.vecdot(shares, scaled.clamp_(min=torch.finfo(wide).min))
            if mean is not None:
                mean[rows] = shares.to(weight.dtype) @ weight
        ctx.save_for_backward(hidden, weight, bias, source, target, normaliser, mean)
        ctx.temperature = temperature
        entropy = entropy[source]
        ctx.mark_non_differentiable(entropy)
        return chosen - normaliser[source], entropy

    @staticmethod
    def backward(ctx, grad, _):
        hidden, weight, bias, source, target, normaliser, mean = ctx.saved_tensors
        grad = grad / ctx.temperature
        total = torch.zeros_like(normaliser).index_add_(0, source, grad)  # (M,) sum over tokens that share a row
        to_hidden = to_weight = to_bias = None
        if mean is not None:
            to_hidden = mean * -total[:, None].to(mean.dtype)
            to_hidden.index_add_(0, source, grad[:, None].to(weight.dtype) * weight[target])
        if any(ctx.needs_input_grad[1:3]):
            to_weight = torch.zeros_like(weight)
            to_bias = None if bias is None else torch.zeros_like(bias)
            for rows in _chunks(len(hidden), len(weight)):
                scaled = torch.nn.functional.linear(hidden[rows], weight, bias).to(normaliser.dtype)
                to_logits = scaled.div_(ctx.temperature).sub_(normaliser[rows, None]).exp_().mul_(-total[rows, None])
                here = (source >= rows.start) & (source < rows.stop)
                to_logits.index_put_((source[here] - rows.start, target[here]), grad[here], accumulate=True)
                to_weight.addmm_(to_logits.to(weight.dtype).T, hidden[rows])
                if to_bias is not None:
                    to_bias += to_logits.sum(dim=0)
        return to_hidden, to_weight, to_bias, None, None, None


def linear_head(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    source: torch.Tensor,
    target: torch.Tensor,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of tokens under a linear output layer.

    Args:
        hidden: (M, D) hidden states.
        weight: (V, D) output embeddings.
        bias: (V,) or None. It is trained where the weights are.
        source: (N,) which hidden state each token follows; several tokens may follow one.
        target: (N,) token ids.
        temperature: divides the logits; above 0.

    Returns:
        Log-probabilities (N,), differentiable once, and entropies (N,) of the distributions, detached. float32, or
        float64 for float64 hidden states.
    """
    return _LinearHead.apply(hidden, weight, bias, source, target, temperature)


def from_logits(
    logits: torch.Tensor, source: torch.Tensor, target: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As :func:`linear_head`, from logits (M, V), for models whose last layer is no plain one."""
    logprobs = torch.log_softmax(logits.to(_wide(logits.dtype)) / temperature, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(dim=-1)
    return logprobs[source, target], entropy[source]


def output_layer(model: PreTrainedModel) -> torch.nn.Linear | None:
    """The layer that makes logits of hidden states, where it is a linear one without an adapter of its own."""
    layer = model.get_output_embeddings()
    return layer if type(layer) is torch.nn.Linear else None


@torch.no_grad()
def has_linear_head(model: PreTrainedModel) -> bool:
    """Whether the model's logits are its output layer's and nothing more. Some models scale them, or bound them, in a
    way that no configuration tells for all, so it is tried."""
    if (layer := output_layer(model)) is None:
        return False
    size = model.config.get_text_config().vocab_size
    ids = torch.tensor([[(7 * i + 3) % size for i in range(6)]], device=model.device)
    logits = model(input_ids=ids, use_cache=False).logits
    own = layer(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    return own.shape == logits.shape and torch.allclose(own.to(logits.dtype), logits, rtol=1e-3, atol=1e-5)


def _chunks(rows: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_LOGITS // vocabulary)
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32

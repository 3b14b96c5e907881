"""From hidden states to the log-probabilities of tokens, without the logits of a whole batch.

Logits are as wide as the vocabulary: 50,000 numbers a token where the hidden state has 600. They are computed block by
block, for some rows and a part of the vocabulary, small enough to stay in a processor's cache, and thrown away; what a
row's blocks have in common (its largest logit so far, and sums relative to that) is carried along. For the backward
pass the forward pass keeps what is as narrow as a hidden state: the mean of the output embeddings under the
distribution. The derivative of log p(token) with respect to the hidden state is the token's embedding minus that mean.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

# Logits of a block: (CPU, other devices). On a CPU 2 MB in float32: blocks of 64 MB took 1.8 times as long, since each
# pass over them went through memory. Elsewhere few large products are quicker than many small ones.
BLOCK_LOGITS = (1 << 19, 1 << 24)
BLOCK_ROWS = 1024  # most rows of a block: with more, it would be too narrow for an efficient product


class _LinearHead(torch.autograd.Function):
    """log softmax((hidden @ weight.T + bias) / temperature) at chosen entries."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, source, target, temperature):
        wide = _wide(hidden.dtype)
        least = torch.finfo(wide).min
        normaliser = torch.empty(len(hidden), dtype=wide, device=hidden.device)  # (M,)
        entropy = torch.empty_like(normaliser)
        mean = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None  # (M, D)
        chosen = torch.empty(len(source), dtype=wide, device=hidden.device)
        for rows in _pieces(len(hidden), BLOCK_ROWS):
            wanted = ((source >= rows.start) & (source < rows.stop)).nonzero()[:, 0]  # tokens that follow these rows
            after, token, found = source[wanted] - rows.start, target[wanted], chosen.new_empty(len(wanted))
            top = chosen.new_full((rows.stop - rows.start,), least)  # (m,) the largest logit so far
            total, expected = torch.zeros_like(top), torch.zeros_like(top)  # sums of exp(d), exp(d) d; d = logit - top
            sums = None if mean is None else top.new_zeros(len(top), hidden.shape[1])  # (m, D) exp(d) embedding
            for columns in _columns(len(top), weight):
                scaled = _logits(hidden[rows], weight, bias, columns).to(wide).div_(temperature)  # (m, v)
                scaled.clamp_(min=least)  # tokens that the model rules out (-inf) count 0
                inside = (token >= columns.start) & (token < columns.stop)
                picked = scaled[after, (token - columns.start).clamp(0, scaled.shape[1] - 1)]
                found = torch.where(inside, picked, found)
                old, top = top, torch.maximum(top, scaled.amax(dim=-1))
                shrunk = (old - top).exp_()
                expected.mul_(shrunk)
                expected.add_(total.mul_(shrunk) * (old - top))
                shares = scaled.sub_(top[:, None]).exp()
                total.add_(shares.sum(dim=-1))
                expected.add_(torch.linalg.vecdot(shares, scaled))
                if sums is not None:
                    sums.mul_(shrunk[:, None]).add_(shares.to(weight.dtype) @ weight[columns])
            normaliser[rows] = top + total.log()
            entropy[rows] = total.log() - expected / total
            chosen[wanted] = found
            if mean is not None:
                mean[rows] = sums / total[:, None]
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
            for rows in _pieces(len(hidden), BLOCK_ROWS):
                for columns in _columns(rows.stop - rows.start, weight):
                    scaled = _logits(hidden[rows], weight, bias, columns).to(normaliser.dtype).div_(ctx.temperature)
                    to_logits = scaled.sub_(normaliser[rows, None]).exp_().mul_(-total[rows, None])
                    to_weight[columns].addmm_(to_logits.to(weight.dtype).T, hidden[rows])
                    if to_bias is not None:
                        to_bias[columns] += to_logits.sum(dim=0)
            # A token's own logit: its gradient is added apart.
            to_weight.index_add_(0, target, grad[:, None].to(weight.dtype) * hidden[source])
            if to_bias is not None:
                to_bias.index_add_(0, target, grad.to(bias.dtype))
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


def _logits(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, columns: slice) -> torch.Tensor:
    return torch.nn.functional.linear(hidden, weight[columns], None if bias is None else bias[columns])


def _columns(rows: int, weight: torch.Tensor) -> Iterator[slice]:
    """Parts of the vocabulary that make blocks with so many rows."""
    return _pieces(len(weight), max(1, BLOCK_LOGITS[0 if weight.device.type == "cpu" else 1] // rows))


def _pieces(length: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32

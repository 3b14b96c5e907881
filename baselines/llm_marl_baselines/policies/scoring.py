"""Log-probabilities of given responses, with gradients, in micro-batches.

Two layouts of the same computation:

- *plain*: one row for each response, its prompt in front of it;
- *packed*: one row for each distinct prompt, followed by its responses one after another. A mask (4-D) lets a
  response see the prompt and itself only, and its positions count on from the prompt. The prompt is computed once,
  forward and backward, and its gradient is the sum over its responses.

The last token of a response is predicted and predicts nothing, so it is not fed. Prompts are padded on the left and
responses on the right: they meet in the same column of every row, and the logits wanted are those of the last columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from llm_marl_envs.errors import ConfigError

from .base import Scored

LOGIT_BUDGET = 1 << 27  # most logits in a micro-batch: 512 MB in float32, and as much again for their gradient
POSITIONS_FROM_MASK = ("bloom", "mpt", "falcon")  # models whose position bias is derived from a 2-D mask
CHUNK = 256  # rows of logits whose softmax is held at once


@dataclass(frozen=True)
class Pack:
    """A row to be computed: a prompt and the indices of the responses that follow it."""

    prompt: tuple[int, ...]
    members: tuple[int, ...]
    fed: int  # tokens of the responses that are fed: all but the last of each


def score(
    use: Callable[[], AbstractContextManager[PreTrainedModel]],
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    token_budget: int,
    packed: bool,
    grad: bool = True,
    logit_budget: int = LOGIT_BUDGET,
) -> Iterator[Scored]:
    """Score each response after its prompt.

    Args:
        use: gives the model, in eval mode, with the right adapter switched on for the length of the context. It is
            entered once for each micro-batch, so that nothing stays switched while the caller works on the result.
        prompts: (B) token ids.
        responses: (B) token ids, at least one each.
        temperature: divides the logits, as at sampling; above 0.
        pad_id: any valid token.
        token_budget: most tokens, padding included, of a micro-batch; a response with its prompt may exceed it alone.
        packed: the layout. Packed needs :func:`supports_packing`.
        grad: whether gradients are recorded.
        logit_budget: most logits of a micro-batch, with the same exception.

    Yields:
        Micro-batches; every response is in exactly one.

    Raises:
        ConfigError: a temperature of 0, or a response without tokens.
    """
    if temperature <= 0:
        raise ConfigError(
            f"Responses cannot be scored at temperature {temperature}: greedy choices have no log-probability. "
            "Train with a temperature above 0."
        )
    for index, response in enumerate(responses):
        if len(response) == 0:
            raise ConfigError(f"Response {index} has no tokens: it was not sampled by a language model.")
    with use() as model:
        columns = max(1, logit_budget // model.config.get_text_config().vocab_size)
        packs = make_packs(model, prompts, responses, token_budget, columns, packed)
    for batch in micro_batches(packs, token_budget, columns):
        with use() as model, torch.set_grad_enabled(grad):
            scored = _score_packs(model, batch, responses, temperature, pad_id)
        yield scored


def make_packs(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    token_budget: int,
    columns: int,
    packed: bool,
) -> list[Pack]:
    """Group the responses into rows, each within the budgets where a single response is."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, prompt in enumerate(prompts):
        groups.setdefault(tuple(int(token) for token in prompt), []).append(index)
    packs = []
    for prompt, members in groups.items():
        members.sort(key=lambda index: len(responses[index]))
        size = 1 if not packed else _pack_size(model, len(prompt), [len(responses[i]) - 1 for i in members])
        pack: list[int] = []
        fed = 0
        for index in members:
            more = len(responses[index]) - 1
            full = len(prompt) + fed + more > token_budget or 1 + fed + more > columns
            if pack and (len(pack) == size or full):
                packs.append(Pack(prompt, tuple(pack), fed))
                pack, fed = [], 0
            pack.append(index)
            fed += more
        packs.append(Pack(prompt, tuple(pack), fed))
    return packs


def _pack_size(model: PreTrainedModel, prompt: int, fed: list[int]) -> int:
    """How many responses to a row cost least. Packing saves copies of the prompt, and pays for attention between
    responses that the mask then throws away; with long responses the second outgrows the first."""
    config = model.config.get_text_config()
    per_token = 12 * config.hidden_size  # multiply-adds of a layer's matrices, per unit of hidden size, roughly
    per_pair = 2
    mean = sum(fed) / len(fed)

    def cost(size: int) -> float:
        length = prompt + size * mean
        return -(-len(fed) // size) * (length * per_token + length * length * per_pair)

    return min(range(1, len(fed) + 1), key=cost)


def micro_batches(packs: Sequence[Pack], token_budget: int, columns: int) -> Iterator[list[Pack]]:
    """Collect rows of similar shape into micro-batches within the budgets (tokens, and columns of logits)."""
    batch: list[Pack] = []
    for pack in sorted(packs, key=lambda pack: (pack.fed, len(pack.prompt), pack.members)):
        rows = [*batch, pack]
        prompt, fed = max(len(p.prompt) for p in rows), max(p.fed for p in rows)
        if batch and (len(rows) * (prompt + fed) > token_budget or len(rows) * (1 + fed) > columns):
            yield batch
            batch = []
        batch.append(pack)
    if batch:
        yield batch


def _score_packs(
    model: PreTrainedModel,
    packs: Sequence[Pack],
    responses: Sequence[Sequence[int]],
    temperature: float,
    pad_id: int,
) -> Scored:
    """One forward pass over the packs as rows (R, L), L = P + F: prompts right-aligned in P columns, then responses."""
    width = max(len(pack.prompt) for pack in packs)
    fed = max(pack.fed for pack in packs)
    shape = (len(packs), width + fed)
    ids = np.full(shape, pad_id, dtype=np.int64)
    positions = np.zeros(shape, dtype=np.int64)
    # Which block a column belongs to: 0 for the prompt, 1, 2, ... for the responses, -1 for padding.
    block = np.full(shape, -1, dtype=np.int64)
    index, length = [], []
    source, target = [], []  # for each response token: its row of logits in (R * (1 + F)), and the token
    for row, pack in enumerate(packs):
        size = len(pack.prompt)
        ids[row, width - size : width] = pack.prompt
        positions[row, width - size : width] = np.arange(size)
        block[row, width - size : width] = 0
        start = width
        for number, member in enumerate(pack.members, start=1):
            response = np.asarray(responses[member], dtype=np.int64)
            end = start + len(response) - 1
            ids[row, start:end] = response[:-1]
            positions[row, start:end] = size + np.arange(len(response) - 1)
            block[row, start:end] = number
            first = row * (1 + fed)  # the prompt's last token predicts the first token of every response
            source.append(np.concatenate([[first], first + 1 + np.arange(start, end) - width]))
            target.append(response)
            index.append(member)
            length.append(len(response))
            start = end
    device = model.device
    logits = model(
        input_ids=torch.from_numpy(ids).to(device),
        attention_mask=_attention_mask(model, torch.from_numpy(block).to(device), packs),
        position_ids=torch.from_numpy(positions).to(device),
        use_cache=False,
        logits_to_keep=1 + fed,
    ).logits
    flat, entropy = token_logprobs(
        logits.reshape(-1, logits.shape[-1]),
        torch.from_numpy(np.concatenate(source)).to(device),
        torch.from_numpy(np.concatenate(target)).to(device),
        temperature,
    )
    lengths = torch.tensor(length, device=device)
    mask = torch.arange(int(lengths.max()), device=device)[None, :] < lengths[:, None]  # (b, T)
    return Scored(
        index=torch.tensor(index, device=device),
        logprobs=torch.zeros(mask.shape, dtype=flat.dtype, device=device).masked_scatter(mask, flat),
        mask=mask,
        entropy=torch.zeros(mask.shape, dtype=flat.dtype, device=device).masked_scatter(mask, entropy),
    )


def _attention_mask(model: PreTrainedModel, block: torch.Tensor, packs: Sequence[Pack]) -> torch.Tensor:
    """What may be attended to. (R, L) where every row holds one response, else (R, 1, L, L).

    Padding attends to itself, since a row of the softmax without any entry would be NaN.
    """
    if all(len(pack.members) == 1 for pack in packs):
        return (block >= 0).long()
    length = block.shape[1]
    causal = torch.ones((length, length), dtype=torch.bool, device=block.device).tril()
    same = block[:, :, None] == block[:, None, :]
    allowed = causal & (same | ((block[:, None, :] == 0) & (block[:, :, None] > 0)))[:, None]
    # Additive, as every attention implementation with a dense mask takes it.
    return torch.zeros(allowed.shape, dtype=model.dtype, device=block.device).masked_fill(
        ~allowed, torch.finfo(model.dtype).min
    )


def supports_packing(model: PreTrainedModel) -> bool:
    """Whether the model obeys a 4-D mask and given positions, as packing needs.

    Sliding windows, linear attention and attention kernels without a dense mask rule it out. What a configuration does
    not tell is tried: two short responses to one prompt must get the same logits packed as alone, to within a small
    part of what leaking between them would change.
    """
    config = model.config.get_text_config()
    if getattr(config, "_attn_implementation", None) not in ("eager", "sdpa"):
        return False
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return False
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return False
    if getattr(config, "alibi", False) or config.model_type in POSITIONS_FROM_MASK:
        return False
    size = config.vocab_size
    tokens = [(7 * i + 3) % size for i in range(14)]
    prompt, first, second = tuple(tokens[:4]), tokens[4:9], tokens[9:14]
    fed = len(first) + len(second) - 2
    with torch.no_grad():
        together = _score_packs(model, [Pack(prompt, (0, 1), fed)], [first, second], 1.0, 0).logprobs[1]
        alone = _score_packs(model, [Pack(prompt, (0,), len(second) - 1)], [second], 1.0, 0).logprobs[0]
        after_first = Pack((*prompt, *first[:-1]), (0,), len(second) - 1)
        leaked = _score_packs(model, [after_first], [second], 1.0, 0).logprobs[0]
    return bool((together - alone).abs().max() <= 0.05 * (leaked - alone).abs().max())


class _TokenLogprobs(torch.autograd.Function):
    """log softmax(logits / temperature) at chosen entries. Keeps the logits alone; softmaxes are held CHUNK rows at a
    time, forward and backward."""

    @staticmethod
    def forward(ctx, logits, source, target, temperature):
        normaliser = torch.empty(len(logits), dtype=_wide(logits), device=logits.device)  # (M,)
        entropy = torch.empty_like(normaliser)
        for start in range(0, len(logits), CHUNK):
            rows = slice(start, start + CHUNK)
            scaled = logits[rows].to(normaliser.dtype) / temperature
            normaliser[rows] = torch.logsumexp(scaled, dim=-1)
            shifted = scaled.sub_(normaliser[rows, None])
            entropy[rows] = -(shifted.exp() * shifted.clamp(min=torch.finfo(shifted.dtype).min)).sum(dim=-1)
        ctx.save_for_backward(logits, source, target, normaliser)
        ctx.temperature = temperature
        chosen = logits[source, target].to(normaliser.dtype) / temperature - normaliser[source]
        entropy = entropy[source]
        ctx.mark_non_differentiable(entropy)
        return chosen, entropy

    @staticmethod
    def backward(ctx, grad, _):
        logits, source, target, normaliser = ctx.saved_tensors
        weight = torch.zeros_like(normaliser).index_add_(0, source, grad)  # (M,) sum over tokens that share a row
        result = torch.empty_like(logits)
        for start in range(0, len(logits), CHUNK):
            rows = slice(start, start + CHUNK)
            scaled = logits[rows].to(normaliser.dtype) / ctx.temperature
            probabilities = scaled.sub_(normaliser[rows, None]).exp_()
            result[rows] = probabilities.mul_(-weight[rows, None] / ctx.temperature)
        result.index_put_((source, target), (grad / ctx.temperature).to(result.dtype), accumulate=True)
        return result, None, None, None


def _wide(logits: torch.Tensor) -> torch.dtype:
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def token_logprobs(
    logits: torch.Tensor, source: torch.Tensor, target: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of ``target[n]`` under row ``source[n]`` of the logits divided by the temperature.

    Args:
        logits: (M, V) as the model gave them.
        source: (N,) rows; several tokens may share one.
        target: (N,) token ids.
        temperature: above 0.

    Returns:
        Log-probabilities (N,), differentiable once, and the rows' entropies (N,), detached. float32, or float64 for
        float64 logits.
    """
    return _TokenLogprobs.apply(logits, source, target, temperature)

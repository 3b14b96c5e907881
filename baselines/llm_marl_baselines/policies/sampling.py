"""Sampling responses from one model: prefill, then a loop over tokens.

What costs time and is avoided here: a prompt is computed once however many responses it gets, and what several prompts
begin with (the branches of one conversation) once for all of them; only the last position's logits are computed,
finished responses leave the batch, and the vocabulary is sorted only if top-p asks for it.

Randomness: response r's t-th token is the inverse of the cumulative distribution at a number u[r, t] that is drawn from
a generator of the response's own. So a response depends on its prompt, its seed and the weights, not on what else is in
the batch, nor on the device (up to rounding in the logits).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from .base import Sampling
from .caches import roomy_cache, spread
from .prefixes import attention_mask, lay_out, make_packs, padded

NUCLEUS_GUESS = 256  # top-p first looks among so many tokens; only if they do not suffice is all the vocabulary sorted
DRAW_BLOCK = 256  # tokens that are summed up before the cumulative distribution is looked at
SHRINK_AT = 0.75  # a batch is compacted when at most this share of its rows is still being written


@dataclass(frozen=True)
class Row:
    """One response to be sampled: index of its prompt, how to sample, and the seed of its own generator."""

    prompt: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True)
class Sampled:
    """One sampled response: (T,) token ids and log-probabilities, and whether an end-of-text token ended it."""

    token_ids: np.ndarray
    logprobs: np.ndarray
    finished: bool


@torch.no_grad()
def generate(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    *,
    eos_ids: Sequence[int],
    pad_id: int,
    token_budget: int,
    call: Callable[..., Any] | None = None,
    kinds: Sequence[Hashable] | None = None,
) -> list[Sampled]:
    """Sample all rows.

    Args:
        model: a causal language model in eval mode.
        prompts: token ids of the distinct prompts.
        rows: one entry for each response; temperature 0 means greedy.
        eos_ids: any of these ends a response.
        pad_id: fills up shorter prompts; never attended to, so any valid id will do.
        token_budget: most tokens (prompt and response) of a batch; one row alone may exceed it.
        call: runs the model, ``call(which, **inputs)``, where ``which`` holds the index of the prompt of each row of
            the inputs; so rows of one batch can be computed with adapters of their own. None: ``model(**inputs)``.
        kinds: of the prompts; those of one kind (of one adapter) share the computation of what they begin with. It
            needs :func:`scoring.supports_packing`. None: nothing is shared between prompts.

    Returns:
        One result for each row. Greedy choices are certain: their log-probabilities are 0.
    """
    if call is None:

        def call(which: list[int], **inputs: Any) -> Any:
            return model(**inputs)

    results: list[Sampled | None] = [None] * len(rows)
    for batch in batches(prompts, rows, token_budget):
        for index, sampled in zip(
            batch, _generate_batch(model, call, prompts, rows, batch, eos_ids, pad_id, kinds), strict=True
        ):
            results[index] = sampled
    return [sampled for sampled in results if sampled is not None]


def batches(prompts: Sequence[Sequence[int]], rows: Sequence[Row], token_budget: int) -> Iterator[list[int]]:
    """Cut the rows into batches of similar prompt length, rows of one prompt together, within the budget."""
    order = sorted(range(len(rows)), key=lambda r: (len(prompts[rows[r].prompt]), rows[r].prompt))
    batch: list[int] = []
    longest = new = 0
    for r in order:
        longest = len(prompts[rows[r].prompt])  # sorted: the newest is the longest
        new_with = max(new, rows[r].sampling.max_new_tokens)
        if batch and (len(batch) + 1) * (longest + new_with) > token_budget:
            yield batch
            batch, new_with = [], rows[r].sampling.max_new_tokens
        batch.append(r)
        new = new_with
    if batch:
        yield batch


def _generate_batch(
    model: PreTrainedModel,
    call: Callable[..., Any],
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    batch: list[int],
    eos_ids: Sequence[int],
    pad_id: int,
    kinds: Sequence[Hashable] | None,
) -> list[Sampled]:
    device = model.device
    distinct = sorted({rows[r].prompt for r in batch})
    lengths = torch.tensor([len(prompts[p]) for p in distinct], device=device)  # (D,)
    width = int(lengths.max())
    new = max(rows[r].sampling.max_new_tokens for r in batch)
    ids = torch.full((len(distinct), width), pad_id)
    for d, p in enumerate(distinct):
        ids[d, width - len(prompts[p]) :] = torch.tensor(prompts[p])
    columns = torch.arange(width + new, device=device)
    mask = (columns[None, :] >= width - lengths[:, None]).long()  # (D, P + T), of which the part so far is passed
    positions = (columns[None, :width] - (width - lengths[:, None])).clamp(min=0)

    cache = roomy_cache(model, width + new)
    # transformers renamed the argument; what a model calls it is a fact of its signature.
    cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    def forward(which: list[int], ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits (R, V) of the token that follows the last of ``ids`` (R, t). The cache grows by t."""
        fixed = {"use_cache": True, "logits_to_keep": 1, cache_name: cache}
        return call(which, input_ids=ids, attention_mask=mask, position_ids=positions, **fixed).logits[:, -1]

    packs = [] if kinds is None else _packs(model, prompts, distinct, kinds)
    if 0 < len(packs) < len(distinct):
        layouts = [lay_out([prompts[p][:-1] for p in pack]) for pack in packs]
        packed_ids, packed_positions = (torch.from_numpy(rows).to(device) for rows in padded(layouts, pad_id))
        seen = attention_mask(layouts, packed_ids.shape[1], model.dtype, device)
        forward([pack[0] for pack in packs], packed_ids, seen, packed_positions)
        spread(cache, packs, layouts, distinct, width - 1)
        logits = forward(distinct, ids[:, -1:].to(device), mask[:, :width], positions[:, -1:])  # (D, V)
    else:
        logits = forward(distinct, ids.to(device), mask[:, :width], positions)  # (D, V)
    source = torch.tensor([distinct.index(rows[r].prompt) for r in batch], device=device)  # (R,)
    cache.batch_select_indices(source)
    logits, mask, lengths = logits[source], mask[source], lengths[source]

    sampler = RowSampler([rows[r].sampling for r in batch], device)
    uniforms = torch.stack([_uniforms(rows[r].seed, new) for r in batch]).to(device)  # (R, T)
    ends = torch.tensor(sorted(set(eos_ids)), device=device)
    most = torch.tensor([rows[r].sampling.max_new_tokens for r in batch], device=device)
    tokens = torch.zeros((len(batch), new), dtype=torch.long, device=device)
    logprobs = torch.zeros((len(batch), new), device=device)
    count = torch.zeros(len(batch), dtype=torch.long, device=device)
    finished = torch.zeros(len(batch), dtype=torch.bool, device=device)

    here = torch.arange(len(batch), device=device)  # rows of the batch that are still computed
    which = [rows[r].prompt for r in batch]  # their prompts
    writing = torch.ones(len(batch), dtype=torch.bool, device=device)  # of those, the ones that are not done
    for t in range(new):
        chosen, chosen_logprobs = sampler.sample(logits, uniforms[here, t], here)
        alive = here[writing]
        tokens[alive, t], logprobs[alive, t] = chosen[writing], chosen_logprobs[writing]
        count[alive] += 1
        ended = torch.isin(chosen, ends)
        finished[alive] = ended[writing]
        writing = writing & ~ended & (t + 1 < most[here])
        left = int(writing.sum())
        if left == 0:
            break
        if left <= SHRINK_AT * len(here):
            keep = writing.nonzero()[:, 0]
            cache.batch_select_indices(keep)
            here, writing, chosen = here[keep], writing[keep], chosen[keep]
            which = [rows[batch[r]].prompt for r in here.tolist()]
        reached = lengths[here, None] + t  # the position of the token just chosen
        logits = forward(which, chosen[:, None], mask[here, : width + t + 1], reached)
    lists = zip(tokens.cpu().numpy(), logprobs.cpu().numpy(), count.tolist(), finished.tolist(), strict=True)
    return [Sampled(ids[:n].copy(), values[:n].copy(), done) for ids, values, n, done in lists]


def _packs(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], distinct: Sequence[int], kinds: Sequence[Hashable]
) -> list[list[int]]:
    """The distinct prompts, grouped where computing them together, each without its last token, is cheaper."""
    if any(len(prompts[p]) < 2 for p in distinct):
        return []  # nothing would be left of a prompt of one token
    size = model.config.get_text_config().hidden_size
    packs = []
    for kind in dict.fromkeys(kinds[p] for p in distinct):
        own = [p for p in distinct if kinds[p] == kind]
        total = sum(len(prompts[p]) for p in own)
        packs += [[own[m] for m in pack.members] for pack in make_packs([prompts[p][:-1] for p in own], total, size)]
    return packs


def _uniforms(seed: int, count: int) -> torch.Tensor:
    """(count,) float64 in [0, 1), multiples of 2^-48, so that u times a total always stays below the total."""
    bits = np.random.default_rng(seed).integers(0, 1 << 48, size=count)
    return torch.from_numpy(bits).double() / (1 << 48)


class RowSampler:
    """Chooses the next token of each row under the row's own settings.

    Args:
        settings: (R) how each row is sampled.
        device: where the logits are.
    """

    def __init__(self, settings: Sequence[Sampling], device: torch.device):
        self.greedy = torch.tensor([s.temperature == 0 for s in settings], device=device)
        self.temperature = torch.tensor([s.temperature or 1.0 for s in settings], device=device)
        self.top_p = torch.tensor([s.top_p for s in settings], device=device, dtype=torch.float64)
        self.top_k = torch.tensor([s.top_k for s in settings], device=device)
        self.any_greedy = any(s.temperature == 0 for s in settings)
        self.any_truncated = any(s.truncated for s in settings)

    def sample(self, logits: torch.Tensor, uniform: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Choose tokens.

        Args:
            logits: (r, V) raw logits.
            uniform: (r,) float64 in [0, 1).
            rows: (r,) which rows these are.

        Returns:
            Tokens (r,) and their log-probabilities (r,) under the distribution that they were sampled from.
        """
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        scaled = logits / self.temperature[rows, None].to(logits.dtype)
        if self.any_truncated:
            scaled = truncate(scaled, self.top_p[rows], self.top_k[rows])
        top = scaled.amax(dim=-1, keepdim=True)
        tokens, total = draw((scaled - top).exp_(), uniform)
        chosen = (scaled.gather(1, tokens[:, None]) - top)[:, 0] - total.log()
        if self.any_greedy:
            greedy = self.greedy[rows]
            tokens = torch.where(greedy, logits.argmax(dim=-1), tokens)
            chosen = torch.where(greedy, torch.zeros_like(chosen), chosen)
        return tokens, chosen.float()


def draw(shares: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Invert the cumulative distribution: first among blocks of the vocabulary, then inside of one. So only short sums
    are carried along in float64.

    Args:
        shares: (r, V) probabilities up to a factor for each row.
        uniform: (r,) float64 in [0, 1).

    Returns:
        Tokens (r,), none of them with a share of 0, and the sums of the shares (r,), float64.
    """
    if left := -shares.shape[1] % DRAW_BLOCK:
        shares = torch.nn.functional.pad(shares, (0, left))
    blocks = shares.view(len(shares), -1, DRAW_BLOCK)
    cumulative = blocks.sum(dim=-1).double().cumsum(dim=-1)  # (r, blocks)
    total = cumulative[:, -1:]
    target = uniform[:, None] * total
    block = torch.searchsorted(cumulative, target, right=True)  # (r, 1)
    edges = torch.nn.functional.pad(cumulative, (1, 0))
    start, end = edges.gather(1, block), edges.gather(1, block + 1)
    # Which part of the block is left of the target: its own sum in float64 differs from that above by rounding.
    part = ((target - start) / (end - start)).clamp(0, 1 - 2**-52)
    inside = blocks[torch.arange(len(blocks), device=blocks.device), block[:, 0]].double().cumsum(dim=-1)
    token = torch.searchsorted(inside, part * inside[:, -1:], right=True)
    return (block * DRAW_BLOCK + token)[:, 0], total[:, 0]


def truncate(scaled: torch.Tensor, top_p: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Cut the distribution: logits (r, V) of removed tokens become -inf. First top-k, then top-p over what is left.

    top-k keeps the k most likely tokens. top-p keeps the fewest most likely tokens whose probabilities sum to at least
    p. Tokens exactly as likely as the last one kept are kept as well, so that the order of the vocabulary is of no
    account.
    """
    for r in range(len(scaled)):
        k, p = int(top_k[r]), float(top_p[r])
        if 0 < k < scaled.shape[1]:
            least = torch.topk(scaled[r], k).values[-1]
            scaled[r] = scaled[r].masked_fill(scaled[r] < least, -torch.inf)
        if p < 1.0:
            least = _nucleus_edge(scaled[r], p)
            scaled[r] = scaled[r].masked_fill(scaled[r] < least, -torch.inf)
    return scaled


def _nucleus_edge(scaled: torch.Tensor, p: float) -> torch.Tensor:
    """The smallest logit, out of (V,), that belongs to the nucleus."""
    total = torch.logsumexp(scaled.double(), dim=0)
    for size in (NUCLEUS_GUESS, scaled.shape[0]):
        likely = torch.topk(scaled, min(size, scaled.shape[0])).values
        mass = torch.exp(likely.double() - total).cumsum(dim=0)
        if mass[-1] >= p:
            return likely[int(torch.searchsorted(mass, p))]
    return likely[-1]  # p is so near 1 that rounding keeps every token

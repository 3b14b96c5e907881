"""Token sequences that begin alike, laid out so that what they share is computed once.

Sequences of one tree (responses to one prompt, prompts that continue one conversation) become one row of tokens. Each
distinct prefix stands in it once, and a mask lets every token see its own past only: as if each sequence were alone.
Tokens are shared only where their ids, and all ids before them, are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

GROWTH = 1.5  # how much longer than its first sequence a row may be that exceeds the budget by that sequence alone


@dataclass(frozen=True)
class Layout:
    """Sequences as one row of L tokens.

    Attributes:
        ids: (L,) the tokens, each after those before it in its sequences.
        positions: (L,) the place of each token in its sequences.
        columns: for each sequence the columns (T,) of its tokens, ascending.
    """

    ids: np.ndarray
    positions: np.ndarray
    columns: list[np.ndarray]

    @property
    def mask(self) -> np.ndarray:
        """(L, L) bool: which columns each column sees: its own and those before it in its sequences."""
        seen = np.zeros((len(self.ids), len(self.ids)), dtype=bool)
        for columns in self.columns:
            seen[np.ix_(columns, columns)] |= np.tri(len(columns), dtype=bool)
        return seen


def in_order(sequences: Sequence[Sequence[int]]) -> list[int]:
    """Indices of the sequences such that those which share most are neighbours."""
    return sorted(range(len(sequences)), key=lambda i: (tuple(sequences[i]), i))


def shared_length(one: Sequence[int], other: Sequence[int]) -> int:
    """With how many equal tokens two sequences begin."""
    least = min(len(one), len(other))
    different = np.flatnonzero(np.asarray(one[:least]) != np.asarray(other[:least]))
    return int(different[0]) if len(different) else least


def lay_out(sequences: Sequence[Sequence[int]]) -> Layout:
    """Lay sequences out; each shares what it has in common with the one before it (see :func:`in_order`)."""
    ids: list[int] = []
    positions: list[int] = []
    columns: list[np.ndarray] = []
    before: Sequence[int] = ()
    for sequence in sequences:
        shared = shared_length(before, sequence)
        new = np.arange(len(ids), len(ids) + len(sequence) - shared)
        columns.append(np.concatenate([columns[-1][:shared], new]) if shared else new)
        ids += sequence[shared:]
        positions += range(shared, len(sequence))
        before = sequence
    return Layout(np.array(ids, dtype=np.int64), np.array(positions, dtype=np.int64), columns)


@dataclass(frozen=True)
class Pack:
    """A row to be computed.

    Attributes:
        members: which sequences stand in it.
        size: its tokens.
    """

    members: tuple[int, ...]
    size: int


def make_packs(
    sequences: Sequence[Sequence[int]], token_budget: int, hidden_size: int, packed: bool = True
) -> list[Pack]:
    """Group sequences into rows, each within the budget where a single sequence is. Beside one that is not, others may
    stand that share most of it, half as long again in all: without them it would be computed anew for each.

    A sequence joins the row of its neighbour where that costs less than a row of its own: it saves the tokens that they
    share, and pays for attention to all others, which the mask throws away. ``hidden_size``, of the model, says what
    the one is worth in terms of the other. ``packed=False`` gives each a row of its own.
    """
    per_token = 12 * hidden_size  # multiply-adds of a layer's matrices, per unit of hidden size, roughly
    per_pair = 2

    def cost(length: int) -> int:
        return length * per_token + length * length * per_pair

    packs = []
    members: list[int] = []
    size = 0
    for index in in_order(sequences):
        length = len(sequences[index])
        more = length - (shared_length(sequences[members[-1]], sequences[index]) if members else 0)
        most = max(token_budget, int(GROWTH * len(sequences[members[0]]))) if members else 0
        joins = packed and size + more <= most and cost(size + more) < cost(size) + cost(length)
        if members and not joins:
            packs.append(Pack(tuple(members), size))
            members, size, more = [], 0, length
        members.append(index)
        size += more
    return [*packs, Pack(tuple(members), size)] if members else packs


def micro_batches(packs: Sequence[Pack], token_budget: int) -> Iterator[list[Pack]]:
    """Collect rows of similar length into micro-batches within the budget of tokens."""
    batch: list[Pack] = []
    for pack in sorted(packs, key=lambda pack: (pack.size, pack.members)):
        if batch and (len(batch) + 1) * pack.size > token_budget:  # sorted: the newest is the longest
            yield batch
            batch = []
        batch.append(pack)
    if batch:
        yield batch


def attention_mask(layouts: Sequence[Layout], width: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What may be attended to in rows that are padded on the right to ``width``: (R, width) where every row holds one
    sequence, else (R, 1, width, width), to be added to the scores, as every attention with a dense mask takes it."""
    if all(len(layout.columns) == 1 for layout in layouts):
        lengths = torch.tensor([len(layout.ids) for layout in layouts])
        return (torch.arange(width)[None, :] < lengths[:, None]).long().to(device)
    seen = np.zeros((len(layouts), 1, width, width), dtype=bool)
    # Padding attends to itself, since a row of the softmax without any entry would be NaN.
    seen[:, 0, np.arange(width), np.arange(width)] = True
    for row, layout in enumerate(layouts):
        length = len(layout.ids)
        seen[row, 0, :length, :length] = layout.mask
    allowed = torch.from_numpy(seen).to(device)
    return torch.zeros(allowed.shape, dtype=dtype, device=device).masked_fill(~allowed, torch.finfo(dtype).min)


def padded(layouts: Sequence[Layout], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and positions of the layouts as rows (R, L), padded on the right."""
    width = max(len(layout.ids) for layout in layouts)
    ids = np.full((len(layouts), width), pad_id, dtype=np.int64)
    positions = np.zeros(ids.shape, dtype=np.int64)
    for row, layout in enumerate(layouts):
        ids[row, : len(layout.ids)] = layout.ids
        positions[row, : len(layout.ids)] = layout.positions
    return ids, positions

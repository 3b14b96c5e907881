"""Keys and values of what has been computed, as sampling needs them: with room for what is to come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

from .prefixes import Layout


class RoomyLayer(DynamicLayer):
    """Keys and values of one layer, with room for what is still to come.

    The layer of transformers joins old and new by copying all of it at every token.

    Args:
        room: most positions.
    """

    def __init__(self, room: int):
        super().__init__()
        self._room = room

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Append (R, heads, t, size); returns all keys and values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            room = max(self._room, key_states.shape[2])  # prompts that are computed together may need more
            self._all_keys = key_states.new_empty(*key_states.shape[:2], room, key_states.shape[3])
            self._all_values = value_states.new_empty(*value_states.shape[:2], room, value_states.shape[3])
        start = self.get_seq_length()
        end = start + key_states.shape[2]
        self._all_keys[:, :, start:end] = key_states
        self._all_values[:, :, start:end] = value_states
        return self._show(end)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows, in this order."""
        end = self.get_seq_length()
        self._all_keys, self._all_values = self._all_keys[indices], self._all_values[indices]
        self._show(end)

    def gather(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """Make new rows (D) of positions (D, W) of the old ones."""
        for name in ("_all_keys", "_all_values"):
            old = getattr(self, name)
            new = old.new_empty(len(rows), old.shape[1], self._room, old.shape[3])
            new[:, :, : columns.shape[1]] = old[rows[:, None], :, columns].transpose(1, 2)
            setattr(self, name, new)
        self._show(columns.shape[1])

    def _show(self, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = self._all_keys[:, :, :end], self._all_values[:, :, :end]
        return self.keys, self.values


def roomy_cache(model: PreTrainedModel, room: int) -> DynamicCache:
    """An empty cache. Layers of special kinds (sliding windows, linear attention) stay what the model needs."""
    cache = DynamicCache(config=model.config)
    cache.layers = [RoomyLayer(room) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def spread(
    cache: DynamicCache, packs: Sequence[Sequence[int]], layouts: Sequence[Layout], distinct: list[int], width: int
) -> None:
    """Make of the packs' keys and values one row for each distinct prompt, aligned on the right at ``width``."""
    rows = np.zeros(len(distinct), dtype=np.int64)
    columns = np.zeros((len(distinct), width), dtype=np.int64)  # what stands before a prompt is masked
    for row, (pack, layout) in enumerate(zip(packs, layouts, strict=True)):
        for prompt, own in zip(pack, layout.columns, strict=True):
            rows[distinct.index(prompt)] = row
            columns[distinct.index(prompt), width - len(own) :] = own
    for layer in cache.layers:
        layer.gather(*(torch.from_numpy(index).to(layer.keys.device) for index in (rows, columns)))

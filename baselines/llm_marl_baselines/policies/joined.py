"""Several adapters in one forward pass: each row of a batch with its own.

The adapters' low-rank matrices stand side by side, and a mask switches off, in each row, those that are not the row's:
two small products and a mask for a layer, however many adapters there are. peft's own way (``adapter_names``) cuts the
batch up and puts it together again for each adapter and layer; on a CPU sampling took a fifth longer with it
(docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel


@dataclass
class _Side:
    """The adapters of one layer: (in, S) and (S, out), where S is the sum of their ranks; and which mask is theirs."""

    down: torch.Tensor
    up: torch.Tensor
    ranks: tuple[tuple[str, int], ...]


class JoinedAdapters:
    """A context in which the model, with its adapters switched off, is given those of each row.

    Args:
        model: with LoRA layers of peft, switched off.
        adapters: (D) names, of adapters on linear layers; any other name stands for no adapter.
    """

    def __init__(self, model: PreTrainedModel, adapters: Sequence[str]):
        self._model, self._adapters = model, list(adapters)
        self._names = sorted(set(adapters))
        self._handles: list[RemovableHandle] = []
        self._tables: dict[tuple[tuple[str, int], ...], torch.Tensor] = {}
        self._masks: dict[tuple[tuple[str, int], ...], torch.Tensor | None] = {}

    def __enter__(self) -> JoinedAdapters:
        for layer in self._model.modules():
            if isinstance(layer, LoraLayer) and (side := self._side(layer)) is not None:
                self._handles.append(layer.register_forward_hook(self._hook(side)))
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @torch.no_grad()
    def __call__(self, which: Sequence[int], **inputs: Any) -> Any:
        """Run the model; row r takes ``adapters[which[r]]``."""
        rows = torch.tensor(list(which))
        for ranks, table in self._tables.items():
            mask = table[rows]
            self._masks[ranks] = None if bool(mask.all()) else mask[:, None].to(self._model.device)  # (R, 1, S)
        return self._model(**inputs)

    def _side(self, layer: LoraLayer) -> _Side | None:
        here = [adapter for adapter in self._names if adapter in layer.lora_A]
        if not here:
            return None
        down = [layer.lora_A[adapter].weight.detach() for adapter in here]
        up = [layer.lora_B[adapter].weight.detach() * layer.scaling[adapter] for adapter in here]
        ranks = tuple((adapter, len(matrix)) for adapter, matrix in zip(here, down, strict=True))
        if ranks not in self._tables:
            own = [[adapter == name for name, rank in ranks for _ in range(rank)] for adapter in self._adapters]
            self._tables[ranks] = torch.tensor(own)  # (D, S)
        return _Side(torch.cat(down).T, torch.cat(up, dim=1).T, ranks)

    def _hook(self, side: _Side) -> Any:
        def add(layer: torch.nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> torch.Tensor:
            inner = args[0].to(side.down.dtype) @ side.down  # (R, t, S)
            if (mask := self._masks[side.ranks]) is not None:
                inner = inner * mask
            return (out + inner @ side.up).to(out.dtype)  # as peft: added before it is rounded

        return add

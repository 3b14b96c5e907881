"""Gradient checkpointing: layers that keep their inputs only, and are computed once more in the backward pass.

It costs one more forward pass (half as many operations again with adapters, a third with whole models) and saves most
of the memory of activations, which grows with the tokens of a micro-batch. transformers' own switch works in training
mode alone, where dropout is on; here a response is scored by the weights that sampled it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def recomputed(model: PreTrainedModel, use: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Forward passes within it keep no activations inside of layers.

    ``use`` switches on the adapter that the pass is computed with: by the time of the backward pass another one may be
    switched on, and layers would be computed again with that.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]

    def kept_small(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            contexts = {"context_fn": lambda: (nullcontext(), use())}
            # Nothing here is random, so no random state has to be kept.
            return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **contexts, **kwargs)

        return run

    for layer in layers:
        layer.forward = kept_small(layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def can_be_recomputed(model: torch.nn.Module) -> bool:
    """Whether the model has layers that can be computed again."""
    return any(isinstance(module, GradientCheckpointingLayer) for module in model.modules())

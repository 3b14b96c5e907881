"""A frozen base whose layers are divided among the processes (FSDP 2), for models that one device cannot hold.

``torch.distributed.fsdp.fully_shard`` keeps a part of every decoder layer on each process and gathers a layer when it
is computed, forward and backward. Adapters, embeddings and the output layer stay whole on each process, so that
learners, optimisers, checkpoints and the sums of gradients are what they are without it.

Gathering takes all processes, but they have different work: one samples a longer answer, scores one micro-batch more,
or has no question left. So each pass is announced before it is begun (:func:`~llm_marl_baselines.parallel.announce`).
Whoever has nothing of the kind to do computes one token of no account beside it, until all wait for the same result.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import PreTrainedModel

from llm_marl_envs.errors import ConfigError

from .. import parallel

_divided: list[DividedModel] = []  # in the order in which they were loaded, the same on each process


def wanted() -> bool:
    """Whether the launcher asks for FSDP, and there are processes to divide a model among.

    Raises:
        ConfigError: for a kind of FSDP that is not supported.
    """
    if parallel.size() == 1 or os.environ.get("ACCELERATE_USE_FSDP", "").lower() != "true":
        return False
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError("Only version 2 of FSDP is supported: fsdp_version: 2 in accelerate's file.")
    if os.environ.get("FSDP_OFFLOAD_PARAMS", "").lower() == "true":
        raise ConfigError("fsdp_offload_params is not supported: set it to false, or use more devices.")
    return True


def divide(model: PreTrainedModel, device: torch.device) -> PreTrainedModel:
    """Divide the decoder layers of a frozen model, which may lie on the CPU, and move the rest to the device.

    Raises:
        ConfigError: it has no decoder layers that this finds.
    """
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, torch.nn.ModuleList):
        raise ConfigError(
            f"FSDP divides a model's decoder layers, and {type(model).__name__} has no base_model.layers."
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (parallel.size(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    model.to(device)
    _divided.append(DividedModel(model, layers, len(_divided)))
    parallel.accompany_with(_accompany)
    return model


class DividedModel:
    """Announces the passes through a model, and computes one beside those of others.

    Args:
        model: whose layers are divided.
        layers: these, in order.
        number: of the model; it is the same on each process.
    """

    def __init__(self, model: PreTrainedModel, layers: torch.nn.ModuleList, number: int):
        self._model, self._number = model, number
        self._beside = False  # whether this pass is one for others
        # What goes into the first layer and comes out of the model, in a pass for others that is still to go back.
        self._input: torch.Tensor | None = None
        self._output: torch.Tensor | None = None
        # Both before FSDP's own hooks, which gather.
        layers[0].register_forward_pre_hook(self._before, prepend=True)
        layers[-1].register_forward_hook(self._after, prepend=True)

    def _before(self, layer: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        grad = torch.is_grad_enabled()
        if not self._beside:
            parallel.announce((self._number, "forward", grad))
        if not grad:
            return None
        # Then every layer has a backward pass, wherever adapters stand: each process gathers the same.
        hidden = args[0] if args[0].requires_grad else args[0].detach().requires_grad_()
        if self._beside:
            self._input = hidden
        return (hidden, *args[1:])

    def _after(self, layer: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        if hidden.requires_grad and not self._beside:
            hidden.register_hook(lambda grad: parallel.announce((self._number, "backward", True)))

    def accompany(self, what: str, grad: bool) -> None:
        """Take part in a pass of another process."""
        if what == "backward":
            assert self._output is not None
            torch.autograd.grad(self._output.sum(), self._input)
            self._output = self._input = None
            return
        self._beside = True
        try:
            with torch.set_grad_enabled(grad):
                ids = torch.zeros((1, 1), dtype=torch.long, device=self._model.device)
                hidden = self._model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        finally:
            self._beside = False
        self._output = hidden if grad else None


def _accompany(step: tuple[int, str, bool]) -> None:
    number, what, grad = step
    _divided[number].accompany(what, grad)

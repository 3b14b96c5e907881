"""How learners' weights are kept between runs: one safetensors file for each, exact to the last bit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from llm_marl_envs.errors import DataError

from .bases import contiguous

_PEFT = "base_model.model."  # before every name in a file of peft's


class Kept(Protocol):
    """What has weights and a name: a learner, or a critic."""

    name: str
    weights: dict[str, torch.nn.Parameter]


def save(learners: Iterable[Kept], folder: Path) -> None:
    """Write each learner's weights into the folder, which is made if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, learner in enumerate(learners):
        if learner.weights:  # a model as it is has none of its own
            save_file(contiguous(learner.weights), folder / _file(number), metadata={"learner": learner.name})


def load(learners: Iterable[Kept], folder: Path) -> None:
    """Read what :func:`save` wrote into the same parameters.

    Raises:
        DataError: a file is missing, or belongs to other learners or other shapes. Nothing is changed then.
    """
    found = [
        (learner, _read(folder / _file(number), learner, learner.name))
        for number, learner in enumerate(learners)
        if learner.weights
    ]
    for learner, tensors in found:
        _copy(tensors, learner)


def take(path: Path, owner: str, learner: Kept) -> None:
    """Read weights that were saved for learner ``owner``, perhaps of another run, into ``learner``.

    Raises:
        DataError: as :func:`load`.
    """
    _copy(_read(path, learner, owner), learner)


def take_adapter(path: Path, learner: Kept) -> None:
    """Read an adapter that ``llm-marl export`` or peft wrote into ``learner``.

    Raises:
        DataError: the file is missing or damaged, or its names or shapes are not the learner's.
    """
    if not path.is_file():
        raise DataError(f"There is no {path}, so that the adapter has a configuration and no weights.")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name.removeprefix(_PEFT): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(f"{path} is damaged: {error}. Export the adapter again.") from error
    _check_shapes(path, tensors, learner)
    _copy(tensors, learner)


def _copy(tensors: dict[str, torch.Tensor], learner: Kept) -> None:
    with torch.no_grad():
        for name, parameter in learner.weights.items():
            parameter.copy_(tensors[name])


def _file(number: int) -> str:
    # By number: an agent's name need not be a file name. The name is in the file's metadata.
    return f"learner{number}.safetensors"


def _read(path: Path, learner: Kept, owner: str) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise DataError(f"There is no {path}: the weights of learner {learner.name!r} were not saved there.")
    with safe_open(path, framework="pt") as file:
        found = (file.metadata() or {}).get("learner")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if found != owner:
        raise DataError(f"{path} holds the weights of learner {found!r}, not of {owner!r}.")
    _check_shapes(path, tensors, learner)
    return tensors


def _check_shapes(path: Path, tensors: dict[str, torch.Tensor], learner: Kept) -> None:
    expected = {name: tuple(weight.shape) for name, weight in learner.weights.items()}
    if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != expected:
        raise DataError(
            f"The weights in {path} are not those of learner {learner.name!r}: names or shapes differ. "
            "They were saved with another model, LoRA rank or target modules."
        )

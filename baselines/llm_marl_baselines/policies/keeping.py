"""How learners' weights are kept between runs: one safetensors file for each, exact to the last bit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from llm_marl_envs.errors import DataError

from .weights import Learner, contiguous


def save(learners: Iterable[Learner], folder: Path) -> None:
    """Write each learner's weights into the folder, which is made if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, learner in enumerate(learners):
        save_file(contiguous(learner.weights), folder / _file(number), metadata={"learner": learner.name})


def load(learners: Iterable[Learner], folder: Path) -> None:
    """Read what :func:`save` wrote into the same parameters.

    Raises:
        DataError: a file is missing, or belongs to other learners or other shapes. Nothing is changed then.
    """
    found = [(learner, _read(folder / _file(number), learner)) for number, learner in enumerate(learners)]
    with torch.no_grad():
        for learner, tensors in found:
            for name, parameter in learner.weights.items():
                parameter.copy_(tensors[name])


def _file(number: int) -> str:
    # By number: an agent's name need not be a file name. The name is in the file's metadata.
    return f"learner{number}.safetensors"


def _read(path: Path, learner: Learner) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise DataError(f"There is no {path}: the weights of learner {learner.name!r} were not saved there.")
    with safe_open(path, framework="pt") as file:
        owner = (file.metadata() or {}).get("learner")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if owner != learner.name:
        raise DataError(f"{path} holds the weights of learner {owner!r}, not of {learner.name!r}.")
    expected = {name: tuple(weight.shape) for name, weight in learner.weights.items()}
    if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != expected:
        raise DataError(
            f"The weights in {path} are not those of learner {learner.name!r}: names or shapes differ. "
            "They were saved with another model, LoRA rank or target modules."
        )
    return tensors

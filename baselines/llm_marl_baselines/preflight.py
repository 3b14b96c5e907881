"""What stops a run before it begins: a folder that cannot be written, too little disk, too little memory.

Everything here is a lower bound: what is asked for is needed for certain, and a run may need more (activations, the
files of logs). Where a size cannot be told, nothing is said. Bytes of memory and of checkpoints, for a learner of P
trainable weights:

=====================  =============================================================================================
frozen base            its parameters in ``dtype``, once for all agents that stand on it; FSDP divides it
trained weights        4 P bytes each for the weights, their gradients and AdamW's two moments (float32)
one checkpoint         4 P bytes each for the weights and the two moments
disk                   ``keep_checkpoints`` of them and one more, since an old one goes when the new one is complete
=====================  =============================================================================================

Parameters are counted on torch's meta device, which has shapes and no memory: nothing of the weights is read.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel

from llm_marl_envs.errors import ConfigError

from . import checkpoint, control_groups, parallel
from .config import TrainConfig
from .policies import models, sharded
from .policies.bases import Lora, target_modules
from .policies.weights import Seat
from .trainer import Trainer

WEIGHT_BYTES = 4  # of what is trained, whatever the base has
MOMENTS = 2  # that AdamW keeps for each weight


def check_folder(folder: Path) -> None:
    """Refuse a run's folder in which nothing can be written. Nothing is left there, and it is not made.

    Raises:
        ConfigError: it cannot be written, or cannot be made.
    """
    place = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=place):  # asking for permissions is not enough: a disk may be read-only
            pass
    except OSError as error:
        raise ConfigError(
            f"The run's folder {folder} cannot be written: {place}: {error.strerror or error}. See to the permissions "
            "(or the space left), or choose another --output."
        ) from error


def check_models(folder: Path, config: TrainConfig, names: Mapping[str, str], seats: Mapping[str, Seat]) -> None:
    """Refuse models that cannot fit into memory, and checkpoints of them that cannot fit on the disk, before any model
    is loaded.

    Args:
        folder: of the run.
        config: its settings.
        names: the model of each agent that has weights.
        seats: agents that start from something else than a fresh learner.

    Raises:
        ConfigError: too little memory, or disk.
        ModelNotFoundError: there is no such model.
    """
    weight_bytes = models.resolve_dtype(config.dtype, models.resolve_device(config.device)).itemsize
    processes = parallel.size() if sharded.wanted() else 1  # that a base is divided among
    copies = 2 + MOMENTS if config.steps else 1  # of trained weights: they, their gradients, the moments
    sizes: dict[tuple[str, str], tuple[int, int] | None] = {}
    bases: dict[str, int] = {}
    parts: dict[str, int] = {}
    trained = 0
    for learner in _learners(config, names, seats):
        kind = (learner.model, repr(learner.lora))
        if kind not in sizes:
            sizes[kind] = measure(learner.model, learner.lora)
        if (size := sizes[kind]) is None:
            continue
        parameters, adapter = size
        if not learner.whole:
            bases[f"{learner.model}, {weight_bytes} bytes a weight"] = parameters * weight_bytes // processes
        if own := parameters if learner.whole else adapter:
            trains = ", its gradients and AdamW's moments" if learner.trained and config.steps else ""
            count = own * max(WEIGHT_BYTES, weight_bytes) * (copies if learner.trained else 1)
            parts[f"what {learner.name} has of its own{trains}"] = count
            trained += own if learner.trained else 0
    _check_memory(config, {**bases, **parts})
    check_disk(folder, config, trained)


def check_trainer(folder: Path, trainer: Trainer) -> None:
    """Refuse checkpoints that cannot fit on the disk, now that all that is trained is known, critics included.

    Raises:
        ConfigError: too little disk.
    """
    policy = trainer.policy
    trained = sum(weight.numel() for name in policy.learners for weight in policy.parameters(name))
    check_disk(folder, trainer.config, trained)


def check_disk(folder: Path, config: TrainConfig, trained: int) -> None:
    """Refuse a run whose checkpoints do not fit.

    Args:
        folder: of the run; what it has of checkpoints takes no new room.
        config: its settings.
        trained: number of trainable weights.

    Raises:
        ConfigError: too little disk.
    """
    one = trained * WEIGHT_BYTES * (1 + (MOMENTS if config.steps else 0))
    ever = config.steps // config.checkpoint_every + (config.steps % config.checkpoint_every > 0 or not config.steps)
    there = len(checkpoint.complete(folder))
    more = max(min(config.keep_checkpoints + 1, ever) - there, 0)
    free = shutil.disk_usage(_existing(folder)).free
    if more * one > free:
        raise ConfigError(
            f"There is too little disk for the checkpoints: {trained:,} trained weights make {_size(one)} a checkpoint "
            f"(weights and AdamW's two moments), {more} of them (keep_checkpoints + 1) need {_size(more * one)}, and "
            f"{folder} has {_size(free)} free. Free some space, choose another --output, or keep fewer "
            "(--keep_checkpoints 1)."
        )


def measure(name: str, lora: Lora | None = None) -> tuple[int, int] | None:
    """Parameters of a base model, and of an adapter on it (0 without ``lora``).

    None where that cannot be told without loading it: the built-in models (which are small), quantised models, and
    models with code of their own.

    Raises:
        ModelNotFoundError: there is no such model.
    """
    if name in models.BUILT_IN:
        return None
    config = models.load_config(name)
    if getattr(config, "quantization_config", None) is not None:
        return None
    with torch.device("meta"), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loading gives the same warnings again
        try:
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
        except ValueError:  # transformers has no such model of its own
            return None
        parameters = sum(weight.numel() for weight in model.parameters())
        return parameters, _adapter(model, lora) if lora is not None else 0


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device; None where it cannot be asked. On a CPU: memory that is free or can be
    freed, and swap, but no more than the control group (the container) of this process leaves."""
    if device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    free = psutil.virtual_memory().available + psutil.swap_memory().free
    room = control_groups.free_memory()
    return free if room is None else min(free, room)


@dataclass(frozen=True)
class _Learner:
    """What will be made for an agent, or for those that share; see :func:`policies.weights.make_learners`.

    Attributes:
        name: of the agent, or ``shared``.
        model: the base.
        lora: of its adapter; None for none.
        whole: whether all weights of a model are its own.
        trained: whether they are trained.
    """

    name: str
    model: str
    lora: Lora | None
    whole: bool
    trained: bool


def _learners(config: TrainConfig, names: Mapping[str, str], seats: Mapping[str, Seat]) -> list[_Learner]:
    found: dict[str, _Learner] = {}
    for agent, model in names.items():
        seat = seats.get(agent)
        if seat is None:
            full = config.sharing == "full"
            name = "shared" if config.sharing == "shared" else agent
            found[name] = _Learner(name, model, None if full else config.lora, full, True)
        else:
            plain = seat.full or (seat.frozen and seat.weights is None)
            lora = None if plain else seat.lora or config.lora
            found[agent] = _Learner(agent, seat.model, lora, seat.full, not seat.frozen)
    return list(found.values())


def _check_memory(config: TrainConfig, parts: Mapping[str, int]) -> None:
    device = models.resolve_device(parallel.device(config.device))
    free = free_memory(device)
    needed = sum(parts.values())
    if free is None or needed <= free:
        return
    listed = "; ".join(f"{what}: {_size(size)}" for what, size in parts.items())
    smaller = "" if config.sharing != "full" else ", train adapters (--sharing isolated) instead of whole models"
    raise ConfigError(
        f"The models are larger than the memory: at least {_size(needed)} are needed on {device} ({listed}), and "
        f"{_size(free)} are free. Take a smaller --model{smaller}, a smaller --dtype (bfloat16), another --device, or "
        "free some memory."
    )


def _adapter(model: PreTrainedModel, lora: Lora) -> int:
    """Weights of an adapter on a model, which it changes."""
    try:
        adapted = PeftModel(model, LoraConfig(r=lora.rank, target_modules=target_modules(model, lora.target_modules)))
    except ValueError:  # no such modules, which is said when the model is loaded
        return 0
    return sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return place if place.is_dir() else place.parent


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"

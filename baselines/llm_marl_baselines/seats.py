"""Seats: who answers for an agent, where it is not a fresh adapter on the run's model.

:mod:`specs` says how they are named. What has weights is a :class:`~llm_marl_baselines.policies.weights.Seat`: it
starts from a model, a run or an exported adapter, and is trained unless ``frozen:`` stands before it. What has none (an
endpoint, a function, a person) is a policy of its own, which is never trained, saved or exported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from llm_marl_envs.errors import ConfigError, DataError, MissingDependencyError, UnknownNameError
from llm_marl_envs.tables import did_you_mean, load_object

from . import checkpoint, specs
from .policies.base import Policy, Sampling
from .policies.bases import ADAPTER_FILE, BASE_NAME, Lora
from .policies.weights import Seat

# Settings of peft's that an adapter of ours does not have, with the value that switches them off.
_UNKNOWN_TO_US = {"use_rslora": False, "use_dora": False, "bias": "none"} | dict.fromkeys(
    ("alpha_pattern", "rank_pattern", "modules_to_save", "trainable_token_indices", "lora_bias"), None
)


def resolve(spec: str, role: str) -> Seat | specs.Spec:
    """What a name stands for: a seat with weights, or the spec itself where it has none (see :func:`players`).

    Args:
        spec: see :mod:`specs`.
        role: the agent whose seat it is.

    Raises:
        ConfigError: a run without checkpoints, or without that role; an adapter that is not LoRA's.
        DataError: an adapter whose files are damaged.
        CheckpointError: the run's newest checkpoint is damaged.
    """
    from .run import read_config

    found = specs.read(spec, role)
    if not found.has_weights:
        return found
    seat: Seat | specs.Spec = Seat(found.source)
    if found.kind == "run":
        seat = _of_run(Path(found.source), read_config(Path(found.source)), found.role)
    elif found.kind == "adapter":
        seat = _of_adapter(Path(found.source), role)
    return replace(seat, frozen=found.frozen)


def players(wanted: Mapping[str, specs.Spec], sampling: Mapping[str, Sampling]) -> dict[str, Policy]:
    """Policies without weights. One object answers for all agents that name the same.

    Args:
        wanted: agent -> a spec that has no weights.
        sampling: of all agents, for those that can be told how to sample (endpoints).

    Raises:
        ConfigError: not a policy, or an endpoint that cannot be asked so.
        MissingDependencyError: an endpoint, without the package ``openai``.
    """
    made: dict[str, Policy] = {}
    for agent, spec in wanted.items():
        if spec.source not in made:
            agents = [a for a, other in wanted.items() if other.source == spec.source]
            made[spec.source] = _player(spec, agent, {a: sampling[a] for a in agents})
    return {agent: made[spec.source] for agent, spec in wanted.items()}


def _player(spec: specs.Spec, agent: str, sampling: Mapping[str, Sampling]) -> Policy:
    if spec.kind == "openai":
        from .policies.openai import OpenAIPolicy

        return OpenAIPolicy(spec.source, sampling)
    from .policies.scripted import Scripted, from_object

    if spec.kind == "human":
        from .policies.human import answer

        return Scripted(answer)
    try:
        return from_object(load_object(spec.source), spec.source)
    except (UnknownNameError, MissingDependencyError) as error:
        raise ConfigError(
            f"The policy of agent {agent!r} is {spec.source!r}, which is no folder here and so was taken for "
            f"package.module:Thing. {error} (A model behind an endpoint is named {specs.FORM}.)"
        ) from error


# -- what has weights -------------------------------------------------------------------------------------------------


def _of_run(run: Path, config: Mapping[str, Any], role: str) -> Seat | specs.Spec:
    saved = checkpoint.newest(run)
    if saved is None:
        raise ConfigError(f"{run} has no checkpoint yet, so there is no policy of {role!r} to take from it.")
    held = _learners(saved / "policy")
    model = config["model"] if isinstance(config["model"], str) else config["model"].get(role)
    if role in config["policy"] or (model is not None and is_seat(model, role)):
        # A seat of that run: of its own kind, with the weights that this run gave it.
        seat = resolve(config["policy"].get(role, model), role)
        if isinstance(seat, Seat) and role in held:  # a fresh adapter is of that run's kind
            own = seat.lora or (None if seat.full else Lora(**config["lora"]))
            seat = replace(seat, weights=held[role], learner=role, lora=own)
        return seat
    sharing = config["sharing"]
    name = "shared" if sharing == "shared" and role not in held else role
    if name not in held or model is None:
        known = [n for n in held if not n.startswith("critic")]
        raise ConfigError(
            f"{run} has no policy of {role!r}.{did_you_mean(role, known)} It has: {', '.join(known)}. "
            f"Take another role's by {run}#ROLE."
        )
    return Seat(model, lora=Lora(**config["lora"]), full=sharing == "full", weights=held[name], learner=name)


def is_seat(model: str, role: str) -> bool:
    """Whether ``--model`` names something else than a model that fresh adapters (or copies) are trained on."""
    found = specs.read(model, role)
    return found.frozen or found.kind != "model"


def _learners(folder: Path) -> dict[str, Path]:
    """Learner -> file, of a checkpoint."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found[(file.metadata() or {}).get("learner", "")] = path
    return found


def _of_adapter(folder: Path, role: str) -> Seat:
    path, weights = folder / specs.ADAPTER, folder / ADAPTER_FILE
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        with safe_open(weights, framework="pt") as file:
            told = (file.metadata() or {}).get(BASE_NAME)
    except (json.JSONDecodeError, UnicodeDecodeError, SafetensorError, FileNotFoundError) as error:
        raise DataError(f"The adapter in {folder} cannot be read: {error}. Export it again.") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else config
        raise ConfigError(
            f"{folder} holds an adapter of kind {kind!r}; agents here have LoRA adapters (peft_type LORA)."
        )
    if used := [name for name, off in _UNKNOWN_TO_US.items() if config.get(name) and config[name] != off]:
        raise ConfigError(
            f"The adapter in {folder} has {', '.join(f'{n}={config[n]!r}' for n in used)}, which adapters here do not "
            "know, so that it would answer otherwise than it was trained to. Merge it into its model "
            "(peft's merge_and_unload, then save_pretrained) and name the folder of that."
        )
    # What a built-in model is called here tells its weights from those of the hub's model of the same name; any other
    # name is peft's, which may be mended in its file where a model has moved.
    base = told if told in specs.BUILT_IN else config.get("base_model_name_or_path")
    if not base:
        raise ConfigError(f"{path} does not say on which model it stands: base_model_name_or_path is missing.")
    lora = Lora(rank=config["r"], alpha=config["lora_alpha"], target_modules=_targets(config["target_modules"]))
    return Seat(base, lora=lora, weights=weights)


def _targets(told: Any) -> str | list[str]:
    return told if isinstance(told, str) else sorted(told)

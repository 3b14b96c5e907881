"""Seats: who answers for an agent, where it is not a fresh adapter on the run's model.

| ``--policy ROLE=...`` | the seat starts as                                     | and is trained |
|-----------------------|--------------------------------------------------------|----------------|
| ``MODEL``             | that model, with a fresh adapter                       | yes            |
| ``RUN``               | what the run's newest checkpoint holds for ROLE        | yes            |
| ``RUN#OTHER``         | the same for another role of that run                  | yes            |
| ``frozen:...``        | any of these                                           | no             |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from . import checkpoint
from .policies.bases import Lora
from .policies.weights import Seat

FROZEN = "frozen:"


def resolve(spec: str, role: str) -> Seat:
    """What a seat of the command line stands for.

    Args:
        spec: see the module's docstring.
        role: the agent whose seat it is.

    Raises:
        ConfigError: a run without checkpoints, or without that role.
    """
    from .run import CONFIG, read_config

    frozen = spec.startswith(FROZEN)
    source = spec.removeprefix(FROZEN)
    if not source:
        raise ConfigError(f"The policy of agent {role!r} is {spec!r}: name a model or a run.")
    folder, _, other = source.partition("#")
    if not (Path(folder) / CONFIG).is_file():
        if other or _is_path(folder):
            raise ConfigError(
                f"The policy of agent {role!r} is {spec!r}, and {folder} holds no run: there is no {CONFIG} in it. "
                "Name the folder of a run, or a model (a folder that save_pretrained wrote, or a name of the hub)."
            )
        return Seat(source, frozen=frozen)
    return replace(_of_run(Path(folder), read_config(Path(folder)), other or role), frozen=frozen)


def absolute(spec: str) -> str:
    """The same seat from any working directory: a run by its whole path. What names no run is left as it is."""
    head, source = (FROZEN, spec.removeprefix(FROZEN)) if spec.startswith(FROZEN) else ("", spec)
    folder, mark, other = source.partition("#")
    return f"{head}{Path(folder).resolve()}{mark}{other}" if (Path(folder) / "config.yaml").is_file() else spec


def _is_path(name: str) -> bool:
    """Whether this can only be meant as a folder, and there is no model in it: a slip must not be asked of the hub."""
    path = Path(name)
    if path.is_dir():
        return not (path / "config.json").is_file()
    # The hub's names have one stroke at most; where the folder before it is here, a folder in it was meant.
    return name.startswith((".", "/", "~")) or len(path.parts) > 2 or (len(path.parts) > 1 and path.parent.is_dir())


def _of_run(run: Path, config: Mapping[str, Any], role: str) -> Seat:
    saved = checkpoint.complete(run)
    if not saved:
        raise ConfigError(f"{run} has no checkpoint yet, so there is no policy of {role!r} to take from it.")
    held = _learners(saved[-1] / "policy")
    sharing = config["sharing"]
    if role in config["policy"]:  # a seat of that run: of its own kind, with the weights that this run gave it
        seat = resolve(config["policy"][role], role)
        if role in held:  # a fresh adapter is of that run's kind
            own = seat.lora or (None if seat.full else Lora(**config["lora"]))
            seat = replace(seat, weights=held[role], learner=role, lora=own)
        return seat
    name = "shared" if sharing == "shared" and role not in held else role
    if name not in held:
        known = [n for n in held if not n.startswith("critic")]
        raise ConfigError(
            f"{run} has no policy of {role!r}.{did_you_mean(role, known)} It has: {', '.join(known)}. "
            f"Take another role's by {run}#ROLE."
        )
    model = config["model"] if isinstance(config["model"], str) else config["model"][role]
    return Seat(model, lora=Lora(**config["lora"]), full=sharing == "full", weights=held[name], learner=name)


def _learners(folder: Path) -> dict[str, Path]:
    """Learner -> file, of a checkpoint."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found[(file.metadata() or {}).get("learner", "")] = path
    return found

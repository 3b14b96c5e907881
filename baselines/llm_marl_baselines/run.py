"""A run's folder: made for a new run, opened again for an old one, and turned into policies and environments.

``config.yaml`` holds every setting, ``versions.json`` what it ran with. Both are written before any work.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pettingzoo import ParallelEnv

from llm_marl_envs import CollaborationEnv, make
from llm_marl_envs.errors import ConfigError
from llm_marl_envs.registry import ENVIRONMENTS

from . import checkpoint
from .algorithms import ALGORITHMS, Algorithm
from .config import TrainConfig
from .settings import Settings, settings_of
from .trainer import MakeEnv, Trainer

CONFIG, VERSIONS = "config.yaml", "versions.json"
_PACKAGES = ("llm-marl-envs", "llm-marl-baselines", "pettingzoo", "gymnasium", "numpy", "torch", "transformers", "peft")


def choose_folder(settings: Settings) -> Path:
    """The folder of a new run; nothing is made yet.

    Raises:
        ConfigError: the folder holds something already.
    """
    wanted = settings.train.output
    run = Path(wanted) if wanted else _free_folder(settings)
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        what = "another run" if (run / CONFIG).exists() else "something else"
        remedy = f" Go on with it by --resume {run}, or" if (run / CONFIG).exists() else ""
        raise ConfigError(f"The output folder {run} holds {what}.{remedy} choose another --output.")
    return run


def create(run: Path, settings: Settings) -> None:
    """Make the folder of a new run and write its settings.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
        (run / CONFIG).write_text(yaml.safe_dump(settings.as_dict(), sort_keys=False, allow_unicode=True))
        versions = {name: _version(name) for name in _PACKAGES}
        versions |= {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        (run / VERSIONS).write_text(json.dumps(versions, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"The output folder {run} cannot be written: {error}. Choose another --output.") from error


def read_config(run: Path) -> dict[str, Any]:
    """config.yaml of a run.

    Raises:
        ConfigError: the folder holds no run.
    """
    if not (run / CONFIG).is_file():
        raise ConfigError(f"{run} holds no run: there is no {CONFIG} in it.")
    return yaml.safe_load((run / CONFIG).read_text())


def build(settings: Settings, run: Path) -> Trainer:
    """Load environments and models and join them to a trainer. Nothing is sampled yet."""
    config = settings.train
    models = set(config.model.values()) if isinstance(config.model, dict) else {config.model}
    if threads := config.threads or (1 if models == {"tiny"} else None):
        import torch

        torch.set_num_threads(threads)
    make_env = env_factory(config.env, config.env_args)
    make_eval_env = env_factory(config.env, {**config.env_args, **eval_args(config)})
    algorithm: Algorithm = ALGORITHMS.resolve(settings.name)(settings.algorithm)
    env = make_env()
    policy = build_policy(config, env)
    return Trainer(config, algorithm, policy, make_env, make_eval_env, run, _flat(settings.as_dict()))


def restore(run: Path, episodes: int | None = None) -> tuple[Trainer, int]:
    """The trainer of a run as its newest checkpoint left it, and that checkpoint's step.

    Args:
        run: the run's folder.
        episodes: replaces ``eval_episodes``.

    Raises:
        ConfigError: no run there, or one without a checkpoint.
    """
    settings = settings_of(read_config(run))
    if not (saved := checkpoint.complete(run)):
        raise ConfigError(f"{run} has no checkpoint yet. Go on with it by: llm-marl train --resume {run}")
    if episodes is not None:
        settings = replace(settings, train=replace(settings.train, eval_episodes=episodes))
    trainer = build(settings, run)
    return trainer, checkpoint.load(saved[-1], trainer.policy)["step"]


def env_factory(env_id: str, kwargs: Mapping[str, Any]) -> MakeEnv:
    """A function that gives fresh environments. Ours are cloned from one, so that data is read once."""
    first = make(env_id, **kwargs)
    if isinstance(first, CollaborationEnv):
        return first.clone
    return lambda: make(env_id, **kwargs)


def eval_args(config: TrainConfig) -> dict[str, Any]:
    """What changes in env_args for the held-out rows.

    Raises:
        ConfigError: own data without a held-out split.
    """
    if config.eval_env_args is not None:
        return dict(config.eval_env_args)
    entry = ENVIRONMENTS.resolve(config.env.rpartition(":")[2])
    if "split" not in inspect.signature(entry).parameters or config.eval_every < 0:
        return {}
    if "data" in config.env_args:
        raise ConfigError(
            "Evaluation needs held-out rows of your data: name their split with --eval_env_args.split (such as "
            "'test' or 'train[-16:]'), or switch evaluation off with --eval_every -1."
        )
    return {"split": "eval"}


def build_policy(config: TrainConfig, env: ParallelEnv) -> Any:
    """The language-model policies of a run, one object for all agents."""
    from .policies.hf import HFPolicies

    agents = list(env.possible_agents)
    if isinstance(config.model, dict) and set(config.model) != set(agents):
        raise ConfigError(f"model names {sorted(config.model)}, and the agents are {agents}: name a model for each.")
    if strangers := set(config.sampling.agents) - set(agents):
        raise ConfigError(f"sampling.agents names {sorted(strangers)}, and the agents are {agents}.")
    sampling = {a: config.sampling.of(a, env.action_space(a).max_length) for a in agents}
    return HFPolicies(
        agents,
        config.model,
        sharing=config.sharing,
        lora=config.lora,
        sampling=sampling,
        dtype=config.dtype,
        device=config.device,
        max_prompt_tokens=config.prompts.max_tokens,
        overflow=config.prompts.overflow,
        chat_template_kwargs=config.prompts.chat_template_kwargs,
        generate_tokens=config.generate_tokens,
        score_tokens=config.score_tokens,
        packing=config.packing,
        seed=config.seed,
    )


def _free_folder(settings: Settings) -> Path:
    """runs/ALGORITHM-ENV-MODEL-seedN, with the first free number behind it."""
    model = settings.train.model if isinstance(settings.train.model, str) else "mixed"
    parts = (settings.name.rpartition(":")[2], settings.train.env.rpartition("/")[2], Path(model).name)
    base = Path("runs") / "-".join([*parts, f"seed{settings.train.seed}"])
    number = 1
    while (run := base if number == 1 else base.with_name(f"{base.name}-{number}")).exists():
        number += 1
    return run


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat

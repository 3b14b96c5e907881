"""A run's folder: made for a new run, opened again for an old one, and turned into policies and environments.

``config.yaml`` holds every setting, ``versions.json`` what it ran with. Both are written before any work.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import yaml
from pettingzoo import ParallelEnv

from llm_marl_envs import CollaborationEnv, make
from llm_marl_envs.errors import ConfigError
from llm_marl_envs.registry import ENVIRONMENTS
from llm_marl_envs.wrappers import wrap

from . import checkpoint, parallel, seats
from .algorithms import ALGORITHMS
from .algorithms.base import Algorithm
from .config import TrainConfig
from .files import write_whole
from .plan import check_size
from .policies import sharded
from .policies.base import Policy
from .policies.bases import Base
from .policies.hf import HFPolicies
from .policies.samplers import make_sampler
from .policies.weights import Seat
from .rollout import check_spaces
from .settings import Settings, settings_of
from .specs import Spec, short
from .trainer import MakeEnv, Trainer
from .versions import versions

CONFIG, VERSIONS, RUNS = "config.yaml", "versions.json", Path("runs")
# Gets the settings, the model of each agent that has weights, and those that start from something else.
BeforeLoading = Callable[[TrainConfig, Mapping[str, str], Mapping[str, Seat]], None]


def choose_folder(settings: Settings) -> Path | None:
    """The folder that the settings name for a new run, None if they leave it to :func:`create`.

    Raises:
        ConfigError: the folder holds something already.
    """
    if settings.train.output is None:
        return None
    run = Path(settings.train.output)
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        what = "another run" if (run / CONFIG).exists() else "something else"
        remedy = f" Go on with it by --resume {run}, or" if (run / CONFIG).exists() else ""
        raise ConfigError(f"The output folder {run} holds {what}.{remedy} choose another --output.")
    return run


def create(settings: Settings) -> Path:
    """Make the folder of a new run and write its settings; ``config.yaml`` comes last, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    run = choose_folder(settings)
    try:
        if run is None:
            run = _make_free_folder(settings)
        run.mkdir(parents=True, exist_ok=True)
        (run / VERSIONS).write_text(json.dumps(versions(), indent=1) + "\n", encoding="utf-8")
        write_whole(run / CONFIG, yaml.safe_dump(settings.as_dict(), sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise ConfigError(f"The output folder {run} cannot be written: {error}. Choose another --output.") from error
    return run


def read_config(run: Path) -> dict[str, Any]:
    """config.yaml of a run.

    Raises:
        ConfigError: the folder holds no run, or its config.yaml is not one that :func:`create` wrote.
    """
    path = run / CONFIG
    if not path.is_file():
        raise ConfigError(f"{run} holds no run: there is no {CONFIG} in it.")
    try:
        stored = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged: {error}") from error
    wanted = {"name", "algorithm", *(field.name for field in fields(TrainConfig))}
    if not isinstance(stored, dict) or wanted - set(stored):
        missing = sorted(wanted - set(stored)) if isinstance(stored, dict) else sorted(wanted)
        raise ConfigError(f"{path} is not the configuration of a run of this release; it lacks: {', '.join(missing)}.")
    return stored


def build(
    settings: Settings, run: Path, bases: dict[str, Base] | None = None, before_loading: BeforeLoading | None = None
) -> Trainer:
    """Load environments and models and join them to a trainer. Nothing is sampled yet; what can be wrong with the
    settings shows before a model is loaded; ``before_loading`` is called last before that."""
    config = settings.train
    if config.steps and config.rows_per_step < parallel.size():
        raise ConfigError(
            f"rows_per_step={config.rows_per_step}: the rows of a step are divided among all processes, and there are "
            f"{parallel.size()}. Give each a row, --rows_per_step {parallel.size()} or more, or start fewer processes."
        )
    make_env = env_factory(config.env, config.env_args, config.protocol, config.protocol_args)
    make_eval_env = eval_env_factory(config)
    algorithm: Algorithm = ALGORITHMS.resolve(settings.name)(settings.algorithm)
    env = make_env()
    check_spaces(env)
    check_size(algorithm.plan, env, config.rows_per_step)
    policy, others = build_policies(config, env, bases, before_loading)
    if config.steps and not policy.learners:
        raise ConfigError(
            "Every seat is frozen, so there is nothing to train: leave one out of --policy, name a model with weights "
            "by --model, or take --steps 0."
        )
    return Trainer(config, algorithm, policy, make_env, make_eval_env, run, _flat(settings.as_dict()), others)


def restore(run: Path, episodes: int | None = None, sampler: str | None = None) -> tuple[Trainer, int]:
    """The trainer of a run as its newest checkpoint left it, and that checkpoint's step.

    Args:
        run: the run's folder.
        episodes: replaces ``eval_episodes``.
        sampler: replaces ``sampler`` and its arguments.

    Raises:
        ConfigError: no run there, or one without a checkpoint.
        CheckpointError: the newest checkpoint is damaged.
    """
    settings = settings_of(read_config(run))
    if (saved := checkpoint.newest(run)) is None:
        raise ConfigError(f"{run} has no checkpoint yet. Go on with it by: llm-marl train --resume {run}")
    if episodes is not None:
        settings = replace(settings, train=replace(settings.train, eval_episodes=episodes))
    if sampler is not None:
        settings = replace(settings, train=replace(settings.train, sampler=sampler, sampler_args={}))
    trainer = build(settings, run)
    return trainer, checkpoint.load(saved, trainer.policy)["step"]


def env_factory(
    env_id: str, kwargs: Mapping[str, Any], protocol: str = "parallel", protocol_args: Mapping[str, Any] | None = None
) -> MakeEnv:
    """A function that gives fresh environments, played by a protocol. Those that can are cloned from one, so that data
    is read once."""

    def build() -> ParallelEnv:
        return wrap(make(env_id, **kwargs), protocol, **(protocol_args or {}))

    first = build()
    return first.clone if isinstance(first.unwrapped, CollaborationEnv) and "clone" in vars(type(first)) else build


def eval_env_factory(config: TrainConfig) -> MakeEnv:
    """As :func:`env_factory`, with the held-out rows.

    Raises:
        ConfigError: own data without a held-out split (when evaluation is switched off: not before it is asked for).
    """
    entry = ENVIRONMENTS.resolve(config.env.rpartition(":")[2])
    changes = config.eval_env_args
    if changes is None and "split" not in inspect.signature(entry).parameters:
        changes = {}
    if changes is None and "data" not in config.env_args:
        changes = {"split": "eval"}
    if changes is not None:
        return env_factory(config.env, {**config.env_args, **changes}, config.protocol, config.protocol_args)

    def no_held_out_rows() -> ParallelEnv:
        raise ConfigError(
            "Evaluation needs held-out rows of your data: name their split with --eval_env_args.split (such as "
            "'test' or 'train[-16:]'), or switch evaluation off with --eval_every -1."
        )

    if config.eval_every >= 0:
        no_held_out_rows()
    return no_held_out_rows


def build_policies(
    config: TrainConfig,
    env: ParallelEnv,
    bases: dict[str, Base] | None = None,
    before_loading: BeforeLoading | None = None,
) -> tuple[HFPolicies, dict[str, Policy]]:
    """Who answers in a run: one object for all agents with weights, and who answers for each of the others. ``bases``:
    models in memory already. ``before_loading``: may refuse what would be loaded.

    Raises:
        ConfigError: settings that name other agents, or nobody who could answer.
    """
    agents = list(env.possible_agents)
    if isinstance(config.model, dict) and set(config.model) != set(agents):
        raise ConfigError(f"model names {sorted(config.model)}, and the agents are {agents}: name a model for each.")
    if strangers := set(config.sampling.agents) - set(agents):
        raise ConfigError(f"sampling.agents names {sorted(strangers)}, and the agents are {agents}.")
    if strangers := set(config.policy) - set(agents):
        raise ConfigError(f"policy names {sorted(strangers)}, and the agents are {agents}.")
    sampling = {a: config.sampling.of(a, env.action_space(a).max_length) for a in agents}
    models: dict[str, str] = {}  # of agents with weights
    held: dict[str, Seat] = {}
    without: dict[str, Spec] = {}
    for agent in agents:
        found = seats.resolve(config.named(agent), agent)
        if isinstance(found, Spec):
            without[agent] = found
            continue
        models[agent] = found.model
        if agent in config.policy or seats.is_seat(config.named(agent), agent):
            held[agent] = found
    others = seats.players(without, sampling)
    sampler = make_sampler(config.sampler, config.sampler_args)
    if sharded.wanted() and models and (config.sharing == "full" or any(seat.full for seat in held.values())):
        raise ConfigError(
            "FSDP divides frozen base models, under adapters; whole models of an agent's own (sharing=full) are not "
            "divided. Use sharing=isolated or shared, or start the processes without FSDP (--multi_gpu)."
        )
    if before_loading is not None:
        before_loading(config, models, held)
    if threads := config.threads or (1 if set(models.values()) == {"tiny"} else None):
        torch.set_num_threads(threads)
    policy = HFPolicies(
        list(models),
        models,
        sharing=config.sharing,
        lora=config.lora,
        sampling={agent: sampling[agent] for agent in models},
        dtype=config.dtype,
        device=parallel.device(config.device),
        max_prompt_tokens=config.prompts.max_tokens,
        overflow=config.prompts.overflow,
        chat_template_kwargs=config.prompts.chat_template_kwargs,
        generate_tokens=config.generate_tokens,
        score_tokens=config.score_tokens,
        packing=config.packing,
        gradient_checkpointing=config.gradient_checkpointing,
        sampler=sampler,
        seed=config.seed,
        seats=held,
        bases=bases,
    )
    return policy, others


def _make_free_folder(settings: Settings) -> Path:
    """Make runs/ALGORITHM-ENV-MODEL-seedN, with the first free number behind it. No two processes get the same one."""
    model = short(settings.train.model) if isinstance(settings.train.model, str) else "mixed"
    parts = (settings.name.rpartition(":")[2], settings.train.env.rpartition("/")[2], model)
    name = "-".join([*parts, f"seed{settings.train.seed}"])
    for number in itertools.count(1):
        run = RUNS / (name if number == 1 else f"{name}-{number}")
        try:
            run.mkdir(parents=True)
        except FileExistsError:
            continue
        return run
    raise AssertionError("itertools.count ends never")


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat

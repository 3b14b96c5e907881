"""Training from Python: what ``llm-marl train`` does, for notebooks and scripts.

    from llm_marl_baselines import train

    run = train("magrpo", env="probe/same-word-v0", model="tiny", steps=20, optim={"lr": 2e-3})

The result is the run's folder, which every part of this package takes: ``logged.Logged.read(run)`` has its numbers,
``report.summarize(run)`` shows it in words, ``figures.write_plot([run], path)`` draws it, and ``run.restore(run)``
gives the trained policies back.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from llm_marl_envs.errors import ConfigError

from . import parallel, preflight
from . import run as runs
from .errors import Interrupted
from .runlog import check_trackers
from .settings import Settings, parse, settings_of
from .trainer import Trainer


def train(algorithm: str, /, *, config: str | os.PathLike[str] | None = None, **settings: Any) -> Path:
    """Train agents.

    Args:
        algorithm: a name of ``llm-marl list``, or ``"package.module:Class"``.
        config: a YAML file, or the name of a packaged one, for settings that are not given here.
        **settings: those of the command line (:class:`~llm_marl_baselines.config.TrainConfig`), with groups as
            mappings: ``optim={"lr": 1e-3}``. The algorithm's own are ``algorithm={"group_size": 8}``. ``env`` and
            ``model`` are needed. All are written to the run's config.yaml, so they are plain values: an environment
            made of your own objects is registered first (``llm_marl_envs.register``) and named by its id.

    Returns:
        The run's folder.

    Raises:
        ConfigError: an unknown setting, a wrong type, a value out of range, a folder that is taken.
        UnknownNameError: no such algorithm, environment or model.
        NonFiniteError: a reward, loss or gradient is not finite.
        Interrupted: Ctrl-C; all is saved, and :func:`resume` goes on.
    """
    parallel.start()
    # As arguments of the command line, so that both understand the same: a group's settings add to those of the file.
    given = settings if config is None else {"config": config, **settings}
    return _run(prepare(parse(algorithm, [f"--{name}={_argument(value)}" for name, value in given.items()])))


def resume(run: str | os.PathLike[str]) -> Path:
    """Go on with a run that was stopped; it ends as one that was not. Returns its folder.

    Raises:
        ConfigError: no run there, or another process is at work in it.
        Interrupted, NonFiniteError: see :func:`train`.
    """
    parallel.start()
    folder = Path(run)
    return _run(prepare(settings_of(runs.read_config(folder)), folder), resume=True)


def prepare(settings: Settings, run: Path | None = None) -> Trainer:
    """The trainer of a run, with its folder. A new one is made last, when all that can be wrong with the settings has
    shown.

    Args:
        settings: all settings.
        run: the folder of the run to go on with; None for a new one.

    Raises:
        ConfigError: something is wrong with the settings, the folder is taken or cannot be written, or memory or disk
            are too small.
    """
    with parallel.failing_together():
        check_trackers(settings.train.trackers)
        if run is None:
            parallel.from_main(lambda: runs.choose_folder(settings))
        folder = run or Path(settings.train.output or runs.RUNS)
        preflight.check_folder(folder)
        trainer = runs.build(settings, run or Path(), before_loading=functools.partial(preflight.check_models, folder))
        preflight.check_trainer(folder, trainer)
        if run is None:
            trainer.run = parallel.from_main(lambda: runs.create(settings))
        return trainer


def _run(trainer: Trainer, resume: bool = False) -> Path:
    try:
        trainer.train(resume=resume)
    except Interrupted as stop:
        raise Interrupted(f"{stop} Go on with: resume({str(trainer.run)!r})") from stop
    return trainer.run


def _argument(value: Any) -> str:
    """A setting as it is written on the command line: text as it is, all else as JSON."""
    return os.fspath(value) if isinstance(value, (str, os.PathLike)) else json.dumps(value, default=_plain)


def _plain(value: Any) -> str:
    """A value that JSON does not know."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    remedy = "Convert it"
    if callable(value):
        remedy = "Name it 'package.module:name', or register an environment that has it"
    raise ConfigError(
        f"{value!r} cannot stand in the config.yaml of a run, which holds numbers, texts, lists and mappings. {remedy}."
    )

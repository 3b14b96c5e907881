"""``llm-marl train``: from a command line to a finished run.

llm-marl train magrpo --env writing/tldr-v0 --model smollm2
llm-marl train magrpo --config magrpo-small --optim.lr 3e-4
llm-marl train --resume RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

from llm_marl_envs.errors import ConfigError

from .. import parallel
from .. import run as runs
from ..algorithms import ALGORITHMS
from ..api import prepare
from ..errors import Interrupted
from ..figures import write_plot
from ..plan import most_acting
from ..report import summarize
from ..settings import Settings, parse, settings_of, underscored
from ..trainer import Trainer


def main(args: list[str]) -> int:
    name = args[0] if args and not args[0].startswith("-") else None
    rest = [underscored(a) for a in args[1 if name else 0 :]]
    if name is None and (not rest or rest[0] in ("-h", "--help")):
        print(
            f"{__doc__}\nAlgorithms: {', '.join(ALGORITHMS)}, or package.module:Class. Settings: train ALGORITHM --help"
        )
        return 0 if rest else 2
    # Read by the main process only: what is wrong is said once, and all have the same settings.
    parallel.check_equal(lambda: {"command": args})
    settings, resume = parallel.from_main(lambda: _read(name, rest))
    if parallel.is_main():
        print(f"llm-marl train {settings.name}: {settings.train.env}, {settings.train.model}", file=sys.stderr)
    return execute(settings, resume)


def _read(name: str | None, rest: list[str]) -> tuple[Settings, Path | None]:
    """All settings, and the folder of the run to go on with."""
    if any(a == "--resume" or a.startswith("--resume=") for a in rest):
        return _resumed(name, rest)
    if name is None:
        raise ConfigError(f"llm-marl train needs an algorithm first ({', '.join(ALGORITHMS)}), or --resume RUN.")
    return parse(name, rest), None


def execute(settings: Settings, resume: Path | None = None) -> int:
    """Train and report. ``resume`` is the folder of the run to go on with."""
    trainer = prepare(settings, resume)
    if parallel.is_main():
        print(_announcement(trainer), file=sys.stderr, flush=True)
    try:
        trainer.train(resume=resume is not None)
    except Interrupted as stop:
        if parallel.is_main():
            print(f"{stop} Go on with: llm-marl train --resume {trainer.run}", file=sys.stderr)
        return 130
    if not parallel.is_main():
        return 0
    plot = write_plot([trainer.run], trainer.run / "curves.png")
    print(summarize(trainer.run))
    print(f"\nRun: {trainer.run}\nPlot: {plot}")
    return 0


def _resumed(name: str | None, args: list[str]) -> tuple[Settings, Path]:
    rest = list(args)
    place = next(i for i, a in enumerate(rest) if a == "--resume" or a.startswith("--resume="))
    _, _, path = rest.pop(place).partition("=")
    if not path and place < len(rest) and not rest[place].startswith("-"):
        path = rest.pop(place)
    others = rest
    if not path:
        raise ConfigError("--resume takes the folder of a run: llm-marl train --resume runs/NAME")
    if others:
        raise ConfigError(
            f"--resume goes on with the run's own settings ({path}/config.yaml), so it takes no others; got {others}. "
            "To change a setting start a new run."
        )
    run = Path(path)
    stored = runs.read_config(run)
    if name is not None and name != stored["name"]:
        raise ConfigError(f"{run} is a run of {stored['name']}, not of {name}.")
    return settings_of(stored), run


def _announcement(trainer: Trainer) -> str:
    """What is about to happen, in numbers."""
    config, plan = trainer.config, trainer.algorithm.plan
    env = trainer.make_env()
    turns = getattr(env, "num_turns", None)
    agents = len(env.possible_agents)
    count = "unknown" if turns is None else f"{plan.count(most_acting(env), turns, config.rows_per_step):,}"
    about = trainer.policy.describe()
    bases = ", ".join(f"{name} ({b['parameters'] / 1e6:,.1f} M, {b['dtype']})" for name, b in about["bases"].items())
    sizes = {name: learner["trainable_parameters"] for name, learner in about["learners"].items()}
    learners = ", ".join(f"{name} ({f'{size / 1e6:,.2f} M' if size else 'frozen'})" for name, size in sizes.items())
    lines = [
        f"{agents} agents ({', '.join(env.possible_agents)}), {turns or '?'} turns; a step plays {count} joint actions "
        f"from {config.rows_per_step} rows, G = {plan.group_size} ({plan.shape}, {plan.pairing})"
    ]
    if bases:
        lines.append(f"base: {bases} on {about['device']}; trained, {about['sharing']}: {learners}")
    if trainer.others:
        lines.append(f"never trained: {', '.join(f'{agent} ({config.named(agent)})' for agent in trainer.others)}")
    if parallel.size() > 1:
        lines.append(f"{parallel.size()} processes, each with its part of the rows")
    return "\n".join([*lines, f"run: {trainer.run}"])

"""``llm-marl crossplay RUN RUN ...``: do agents that were trained apart play together?

Row i, column j: the held-out score when the first agent comes from run i and all others from run j. The diagonal is
self-play. Runs that agreed on a language of their own score high there and low elsewhere (zero-shot coordination,
arXiv 2003.02979). Runs must share environment, protocol and held-out rows; the first run's settings are used.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from .. import run as runs
from ..policies.bases import Base
from ..settings import Settings, settings_of
from ..statistics import bootstrap

SAME = ("env", "env_args", "eval_env_args", "eval_rows", "protocol", "protocol_args")


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="llm-marl crossplay",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folders of runs, at least two")
    parser.add_argument("--episodes", type=int, help="sampled episodes of each row (default: the first run's setting)")
    parser.add_argument("--greedy", action="store_true", help="one greedy episode of each row instead")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(args)
    settings = _checked(given.runs, given.episodes)
    found = matrix(settings, given.runs, given.greedy)
    print(json.dumps(found, indent=1) if given.json else _table(found))
    return 0


def matrix(settings: Settings, members: list[Path], greedy: bool = False) -> dict[str, Any]:
    """Play every pair of runs.

    Args:
        settings: of the evaluation.
        members: (S) folders of runs.
        greedy: one greedy episode of each row instead of sampled ones.

    Returns:
        ``runs``; ``score`` (S, S), with ``low`` and ``high`` (95 % over rows); ``self_play`` and ``cross_play``, the
        means of the diagonal and of the rest.
    """
    bases: dict[str, Base] = {}
    size = len(members)
    numbers = np.zeros((3, size, size))
    for i, first in enumerate(members):
        for j, others in enumerate(members):
            trainer = runs.build(_seated(settings, first, others), Path(), bases)
            interval = bootstrap(trainer.run_evaluation(greedy=greedy).scores)
            numbers[:, i, j] = interval.value, interval.low, interval.high
            for base in bases.values():  # or the adapters of every pair would stay in memory
                base.clear()
            print(f"{first} with {others}: {interval}", file=sys.stderr, flush=True)
    same = np.eye(size, dtype=bool)
    return {
        "runs": [str(run) for run in members],
        "greedy": greedy,
        "score": numbers[0].tolist(),
        "low": numbers[1].tolist(),
        "high": numbers[2].tolist(),
        "self_play": float(numbers[0][same].mean()),
        "cross_play": float(numbers[0][~same].mean()),
    }


def _seated(settings: Settings, first: Path, others: Path) -> Settings:
    agents = runs.env_factory(
        settings.train.env, settings.train.env_args, settings.train.protocol, settings.train.protocol_args
    )().possible_agents
    seats = {a: f"frozen:{first if number == 0 else others}" for number, a in enumerate(agents)}
    return replace(settings, train=replace(settings.train, policy=seats))


def _checked(members: list[Path], episodes: int | None) -> Settings:
    if len(members) < 2:
        raise ConfigError("llm-marl crossplay needs at least two runs.")
    if episodes is not None and episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, not {episodes}.")
    stored = [runs.read_config(run) for run in members]
    for run, config in zip(members, stored, strict=True):
        if different := [name for name in SAME if config[name] != stored[0][name]]:
            raise ConfigError(
                f"{run} differs from {members[0]} in {', '.join(different)}: agents meet in one environment only."
            )
    settings = settings_of({**stored[0], "policy": {}})
    train = replace(settings.train, steps=0, eval_every=0)
    return replace(settings, train=train if episodes is None else replace(train, eval_episodes=episodes))


def _table(found: dict[str, Any]) -> str:
    size = len(found["runs"])
    lines = [f"  {number}: {run}" for number, run in enumerate(found["runs"], start=1)]
    lines.append(f"\n{'first agent':>12} | others from" + ("   (greedy)" if found["greedy"] else ""))
    lines.append(f"{'from':>12} | " + " ".join(f"{number:>8}" for number in range(1, size + 1)))
    for number, row in enumerate(found["score"], start=1):
        lines.append(f"{number:>12} | " + " ".join(f"{score:8.3f}" for score in row))
    lines.append(f"\nself-play {found['self_play']:.3f}, cross-play {found['cross_play']:.3f}")
    return "\n".join(lines)

"""What a run's folder tells of it: its settings, and the lines of metrics.jsonl, timing.jsonl and samples.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from .grouping import by_setting, match_rows

Record = Mapping[str, Any]
# What curves are drawn against -> what to call it. Equal steps are equal joint actions only where plans are the same.
AXES = {
    "steps": "step",
    "joint_actions": "joint actions (environment steps)",
    "tokens": "tokens sampled",
}
LOGGED = {"sampled": "eval", "greedy": "eval_greedy"}  # phase of an evaluation -> what metrics.jsonl calls it


@dataclass(frozen=True)
class Logged:
    """One run, as its folder tells of it.

    Attributes:
        run: the folder.
        config: its settings.
        metrics: the lines of metrics.jsonl.
    """

    run: Path
    config: Mapping[str, Any]
    metrics: Sequence[Record]

    @classmethod
    def read(cls, run: Path) -> Logged:
        """Raises ConfigError where the folder holds no run that has begun, or a damaged one."""
        from .run import read_config

        return cls(run, read_config(run), read_metrics(run))

    def of_phase(self, phase: str) -> dict[int, Record]:
        """Step -> record, for a phase as metrics.jsonl names it (``train``, ``eval``, ``eval_greedy``)."""
        return {record["step"]: record for record in self.metrics if record["phase"] == phase}

    def last(self, phase: str) -> Record:
        """The newest evaluation, ``sampled`` or ``greedy``.

        Raises:
            ConfigError: there is none.
        """
        if not (records := self.of_phase(LOGGED[phase])):
            raise ConfigError(
                f"{self.run} has no held-out evaluation in its log (eval_every is {self.config['eval_every']}). "
                "llm-marl eval RUN RUN plays held-out rows now and compares the runs."
            )
        return records[max(records)]

    def costs(self) -> dict[str, float]:
        """What training took: ``joint_actions`` (steps of environments), ``tokens`` sampled, ``seconds`` of rollouts
        and updates. Evaluations are not in it."""
        return {cost: max(self.spent(cost).values()) for cost in ("joint_actions", "tokens", "seconds")}

    def spent(self, cost: str) -> dict[int, float]:
        """Step -> what training had taken when it was done, 0 at step 0; ``cost`` is one of ``AXES``, or seconds."""
        if cost == "steps":
            return {0: 0.0, **{step: float(step) for step in self.of_phase("train")}}
        if cost == "joint_actions":
            each = {step: record["joint_actions"] for step, record in self.of_phase("train").items()}
        else:
            lines = {line["step"]: line for line in read_timing(self.run)}
            each = {step: line["rollout"] + line["update"] for step, line in lines.items()}
            if cost == "tokens":  # older lines have the rate alone; the product is the count but for rounding
                each = {n: line.get("tokens", round(line["tokens_per_s"] * each[n])) for n, line in lines.items()}
        steps = sorted(each)
        sums = np.cumsum([each[step] for step in steps], dtype=np.float64)
        return {0: 0.0, **dict(zip(steps, sums.tolist(), strict=True))}


def groups_of(runs: Sequence[Path]) -> dict[str, list[Logged]]:
    """Label -> runs that differ in their seed alone (:func:`grouping.by_setting`)."""
    logged = [Logged.read(run) for run in runs]
    groups = by_setting([str(one.run) for one in logged], [one.config for one in logged])
    return {label: [logged[i] for i in members] for label, members in groups.items()}


def row_scores(run: Path, record: Record, rows: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
    """The ids of an evaluation's rows, and its scores (R, E), in the order of ``rows`` if that is given.

    Raises:
        ConfigError: the log has none (it is of an older release), or other rows than ``rows``.
    """
    if "row_scores" not in record:
        raise ConfigError(
            f"{run}/metrics.jsonl has no scores of single rows: an older release wrote it. Play the evaluation again: "
            f"llm-marl eval {run}"
        )
    told: Mapping[str, Sequence[float]] = record["row_scores"]
    names = list(told) if rows is None else list(rows)
    if rows is not None:
        match_rows("the first run", names, str(run), list(told))
    return names, np.array([told[name] for name in names], dtype=np.float64)


def read_metrics(run: Path) -> list[Record]:
    """The lines of metrics.jsonl.

    Raises:
        ConfigError: there is no such file, or it is empty or damaged.
    """
    return read_lines(run / "metrics.jsonl")


def read_timing(run: Path) -> list[Record]:
    """The lines of timing.jsonl; none for a run that has made no step.

    Raises:
        ConfigError: a line is damaged.
    """
    path = run / "timing.jsonl"
    return read_lines(path) if path.is_file() and path.stat().st_size else []


def read_lines(path: Path) -> list[Record]:
    """A file of JSON lines. What follows the last newline was cut short by a kill and is left out."""
    if not path.is_file():
        raise ConfigError(f"{path.parent} holds no run that has begun: there is no {path.name} in it.")
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    try:
        records = [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is damaged: {error}") from error
    if not records:
        raise ConfigError(f"{path} is empty: the run has not logged anything yet.")
    return records

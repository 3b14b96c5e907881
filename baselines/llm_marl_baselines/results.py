"""What evaluations of one or more runs say together: means over runs and rows, and groups held against each other.

All of it ends as one JSON document, whose keys ``docs/evaluation.md`` explains; the tables are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from .evaluate import Evaluation
from .grouping import by_setting, check_comparable, match_rows
from .logged import Logged, row_scores
from .response_time import ResponseTimes
from .statistics import bootstrap, compare

PHASES = ("sampled", "greedy")
Quantities = Mapping[str, np.ndarray]  # name -> (R, E), or (R, 1) for what all episodes of a row give together


@dataclass(frozen=True)
class RunResult:
    """The evaluations of one run, or of untrained models.

    Attributes:
        name: its folder, or what else to call it.
        config: its settings, as in config.yaml.
        step: updates of the checkpoint; 0 for untrained models.
        found: phase (``sampled``, ``greedy``) -> its evaluation.
        texts: phase -> metrics of texts, (R, 1).
        times: response times, if they were measured.
    """

    name: str
    config: Mapping[str, Any]
    step: int
    found: Mapping[str, Evaluation]
    texts: Mapping[str, Quantities] = field(default_factory=dict)
    times: ResponseTimes | None = None

    def quantities(self, phase: str) -> dict[str, np.ndarray]:
        return {**self.found[phase].quantities(), **self.texts.get(phase, {})}

    def as_dict(self) -> dict[str, Any]:
        """JSON values; ``sampled`` and ``greedy`` are what metrics.jsonl holds of an evaluation."""
        speed = {
            phase: {
                "seconds": found.seconds,
                "tokens_per_s": float(found.lengths.sum()) / max(found.seconds, 1e-9),
            }
            for phase, found in self.found.items()
        }
        return {
            "run": self.name,
            "seed": self.config["seed"],
            "step": self.step,
            **{phase: found.summary() for phase, found in self.found.items()},
            "speed": speed,
            "response_time": None if self.times is None else self.times.as_dict(),
            "by_row": {phase: found.by_row() for phase, found in self.found.items()},
            "config": dict(self.config),
        }


def document(results: Sequence[RunResult]) -> dict[str, Any]:
    """All results as one JSON document: runs that differ in the seed alone become a group, and each group is held
    against the first.

    Raises:
        ConfigError: runs on different environments or rows.
    """
    names = [result.name for result in results]
    configs = [result.config for result in results]
    check_comparable(names, configs)
    groups = {label: [results[i] for i in members] for label, members in by_setting(names, configs).items()}
    rows = results[0].found["sampled"].rows
    order = {r.name: match_rows(names[0], rows, r.name, r.found["sampled"].rows) for r in results}
    stacked = {label: {phase: _stacked(group, phase, order) for phase in PHASES} for label, group in groups.items()}
    told = []
    for label, group in groups.items():
        maxima = group[0].found["sampled"].maxima()
        told.append(
            {
                "label": label,
                "seeds": [r.config["seed"] for r in group],
                "rows": list(rows),
                "maxima": maxima,
                **{phase: pooled(stacked[label][phase], maxima) for phase in PHASES},
                "runs": [r.as_dict() for r in group],
            }
        )
    scores = {label: {phase: stacked[label][phase]["score"] for phase in PHASES} for label in groups}
    return {"groups": told, "comparisons": comparisons(scores)}


def compare_logged(groups: Mapping[str, Sequence[Logged]]) -> dict[str, Any]:
    """The same from logs alone: the last evaluation of each run, and what its training took.

    Args:
        groups: label -> runs that differ in their seed alone (:func:`logged.groups_of`).

    Raises:
        ConfigError: runs on different environments or rows, of different lengths within a group, or without an
            evaluation.
    """
    logged = [one for group in groups.values() for one in group]
    check_comparable([str(one.run) for one in logged], [one.config for one in logged])
    rows, _ = row_scores(logged[0].run, logged[0].last("sampled"))
    told = []
    scores: dict[str, dict[str, np.ndarray]] = {}
    for label, group in groups.items():
        steps = {str(one.run): one.last("sampled")["step"] for one in group}
        if len(set(steps.values())) > 1:
            listed = ", ".join(f"{run} at step {step}" for run, step in steps.items())
            raise ConfigError(
                f"The last evaluations of runs that differ in their seed alone are at different steps: {listed}. Go on "
                "with the shorter ones: llm-marl train --resume RUN"
            )
        last = {phase: [one.last(phase) for one in group] for phase in PHASES}
        scores[label] = {
            phase: np.stack([row_scores(one.run, record, rows)[1] for one, record in zip(group, records, strict=True)])
            for phase, records in last.items()
        }
        best = last["sampled"][0].get("max_score")
        told.append(
            {
                "label": label,
                "seeds": [one.config["seed"] for one in group],
                "runs": [str(one.run) for one in group],
                "step": last["sampled"][0]["step"],
                "rows": rows,
                "maxima": {"score": best} if best else {},
                **{
                    phase: {
                        **pooled({"score": scores[label][phase]}, {"score": best} if best else {}),
                        "means": _means(last[phase]),
                    }
                    for phase in PHASES
                },
                "costs": [one.costs() for one in group],
            }
        )
    return {"groups": told, "comparisons": comparisons(scores)}


def pooled(values: Mapping[str, np.ndarray], maxima: Mapping[str, float]) -> dict[str, Any]:
    """Means over everything with their intervals, and what follows from them.

    Args:
        values: name -> (S, R, E).
        maxima: name -> what 100 % is, for ``score`` and ``return``.

    Returns:
        ``mean`` (each name), ``iqm`` (interquartile mean over runs of ``score`` and ``return``), ``percent`` and
        ``iqm_percent`` (of the maximum, where there is one): each name -> {value, low, high}.
    """
    mean = {name: bootstrap(table) for name, table in values.items()}
    iqm = {name: bootstrap(values[name], statistic="iqm") for name in ("score", "return") if name in values}
    out: dict[str, Any] = {"mean": {name: interval.as_dict() for name, interval in mean.items()}}
    out["iqm"] = {name: interval.as_dict() for name, interval in iqm.items()}
    for key, intervals in (("percent", mean), ("iqm_percent", iqm)):
        of = {name: best for name, best in maxima.items() if name in intervals}
        out[key] = {name: intervals[name].scaled(100 / best).as_dict() for name, best in of.items()}
    return out


def comparisons(scores: Mapping[str, Mapping[str, np.ndarray]]) -> list[dict[str, Any]]:
    """Each group against the first, on the same rows.

    Args:
        scores: label -> phase -> (S, R, E); row r is the same row in all.
    """
    first, *others = scores
    return [
        {"a": first, "b": label, "phase": phase, **compare(scores[first][phase], scores[label][phase]).as_dict()}
        for label in others
        for phase in scores[label]
        if phase in scores[first]
    ]


def _stacked(group: Sequence[RunResult], phase: str, order: Mapping[str, list[int]]) -> dict[str, np.ndarray]:
    """name -> (S, R, E) for what every run of the group has."""
    tables = [{name: t[order[run.name]] for name, t in run.quantities(phase).items()} for run in group]
    names = [name for name in tables[0] if all(name in table for table in tables)]
    return {name: np.stack([table[name] for table in tables]) for name in names}


def _means(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of what a log has means only of: their means over runs."""
    told = [name for name in records[0] if name.startswith(("return", "term/", "pass@", "accuracy@", "tokens", "cut"))]
    names = [name for name in told if not name.endswith(("_low", "_high")) and all(name in r for r in records)]
    return {name: float(np.mean([record[name] for record in records])) for name in names}

"""What a run found, for a person: a table of before and after, transcripts, and learning curves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from .evaluate import Interval

Record = Mapping[str, Any]
_NOT_COMPARED = ("seed", "output", "threads", "device")


def read_metrics(run: Path) -> list[Record]:
    """The lines of metrics.jsonl.

    Raises:
        ConfigError: there is no such file, or it is empty.
    """
    return _read(run / "metrics.jsonl")


def _read(path: Path) -> list[Record]:
    if not path.is_file():
        raise ConfigError(f"{path.parent} holds no run that has begun: there is no {path.name} in it.")
    *lines, _ = path.read_text(encoding="utf-8").split("\n")  # what follows the last newline is a line cut short
    try:
        records = [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is damaged: {error}") from error
    if not records:
        raise ConfigError(f"{path} is empty: the run has not logged anything yet.")
    return records


def summarize(run: Path) -> str:
    """Held-out score before and after with its terms, and a transcript of each."""
    records = read_metrics(run)
    evaluations = {(r["phase"], r["step"]): r for r in records if r["phase"].startswith("eval")}
    steps = sorted({step for _, step in evaluations})
    if not steps:
        last = [r for r in records if r["phase"] == "train"][-1:]
        return "\n".join(
            f"Training score at step {r['step']}: {r['score']:.3f} (no evaluation: eval_every=-1)" for r in last
        )
    before, after = steps[0], steps[-1]
    lines = [f"\nHeld-out score (mean, 95 % bootstrap interval over rows), step {before} -> step {after}:"]
    for phase, title in (("eval", "sampled"), ("eval_greedy", "greedy")):
        old, new = evaluations[phase, before], evaluations[phase, after]
        line = f"  {title:8} {Interval.of(old)}  ->  {Interval.of(new)}"
        if "percent" in new:
            line += f"   {old['percent']:.1f} % -> {new['percent']:.1f} % of the maximum"
        lines.append(line)
    old, new = evaluations["eval", before], evaluations["eval", after]
    for name in dict.fromkeys(name for name in [*old, *new] if name.startswith("term/")):
        lines.append(f"    {name:14} {_number(old, name)}  ->  {_number(new, name)}")
    lines.append(
        f"    {'tokens':14} {old['tokens']:6.1f}  ->  {new['tokens']:6.1f}"
        f"   ({new['rows']} rows, {new['episodes']} episodes)"
    )
    samples = [s for s in _read(run / "samples.jsonl") if s["phase"] == "eval_greedy" and s["row"] == 0]
    for sample in (samples[0], samples[-1]) if len(samples) > 1 else samples:
        lines.append(f"\n--- held-out row 0, greedy, step {sample['step']} ---")
        lines.append(render_transcript(sample))
    return "\n".join(lines)


def render_transcript(sample: Record) -> str:
    """A record of samples.jsonl in words."""
    parts = []
    for number, turn in enumerate(sample["turns"], start=1):
        for agent, seen in turn["observations"].items():
            parts.append(f"[turn {number}, {agent} sees]\n{seen}")
            if agent in turn["responses"]:
                parts.append(f"[turn {number}, {agent} writes]\n{turn['responses'][agent]}")
        if "terms" in turn:
            terms = ", ".join(f"{name} {value:.2f}" for name, value in turn["terms"].items())
            parts.append(f"[score] {turn['score']:.2f} ({terms})")
    return "\n".join(parts)


def _number(record: Record, name: str) -> str:
    return f"{record[name]:6.3f}" if name in record else "     -"


def write_plot(runs: Sequence[Path], path: Path) -> Path:
    """Draw training and held-out score against steps; runs that differ only in their seed become a mean and a band.

    Args:
        runs: folders of runs.
        path: the PNG to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for label, members in _by_setting(runs).items():
        records = [read_metrics(run) for run in members]
        name = label if len(members) == 1 else f"{label} ({len(members)} seeds)"
        _curve(left, [_series(r, "train") for r in records], name, smooth=True)
        _curve(right, [_series(r, "eval") for r in records], name, smooth=False)
        if len(members) == 1 and (held_out := [r for r in records[0] if r["phase"] == "eval"]):
            steps = [r["step"] for r in held_out]
            low, high = ([r[key] for r in held_out] for key in ("score_low", "score_high"))
            right.fill_between(steps, low, high, alpha=0.2)
    left.set(title="training rows", xlabel="step", ylabel="joint score")
    right.set(title="held-out rows (sampled)", xlabel="step", ylabel="joint score")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _by_setting(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs whose settings agree in all but seed, output and what belongs to the machine, under one label each."""
    from .run import read_config

    groups: dict[str, list[Path]] = {}
    labels: dict[str, str] = {}
    for run in runs:
        config = read_config(run)
        key = json.dumps({k: v for k, v in config.items() if k not in _NOT_COMPARED}, sort_keys=True)
        groups.setdefault(key, []).append(run)
        labels[key] = f"{config['name']}, {config['env']}, {config['model']}"
    names = list(labels.values())
    # Settings that differ in more than the label tells are told apart by the path of their first run.
    return {labels[k] if names.count(labels[k]) == 1 else str(members[0]): members for k, members in groups.items()}


def _series(records: Iterable[Record], phase: str) -> dict[int, float]:
    return {r["step"]: r["score"] for r in records if r["phase"] == phase}


def _curve(axis: Any, series: Sequence[Mapping[int, float]], label: str, smooth: bool) -> None:
    """The mean over runs at the steps that all of them have, and a band of one standard deviation."""
    steps = sorted(set.intersection(*(set(s) for s in series)))
    if not steps:
        return
    values = np.array([[s[step] for step in steps] for s in series])
    if smooth:
        values = np.array([_running_mean(row, max(len(steps) // 10, 1)) for row in values])
    (line,) = axis.plot(steps, values.mean(axis=0), label=label, marker="" if smooth else "o")
    if len(series) > 1:
        mean, std = values.mean(axis=0), values.std(axis=0, ddof=1)
        axis.fill_between(steps, mean - std, mean + std, color=line.get_color(), alpha=0.2)


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Mean over the last ``width`` values, fewer at the start."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)

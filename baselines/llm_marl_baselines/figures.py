"""Learning curves and final scores as PNGs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from .logged import AXES, Logged, Record, groups_of, row_scores
from .statistics import Interval, bootstrap

Groups = Mapping[str, Sequence[Logged]]
_BAR = 0.38  # height of a bar, where groups are 1 apart
_WRAP = 24  # characters of a line beside the bars


def write_plot(runs: Sequence[Path], path: Path, against: str = "steps") -> Path:
    """Draw training and held-out score; runs that differ only in their seed become a mean and a band.

    The band of the training score is one standard deviation over runs; that of the held-out score the 95 % bootstrap
    interval over rows and runs.

    Args:
        runs: folders of runs.
        path: the PNG to write.
        against: what curves are drawn against, one of ``AXES``.
    """
    figure = _figure(11, 4)
    left, right = figure.subplots(1, 2)
    groups = groups_of(runs)
    for color, (label, members) in zip(_colors(), groups.items(), strict=False):
        name = label if len(members) == 1 else f"{label} ({len(members)} seeds)"
        _draw_curves(left, right, members, name, color, against)
    for axis in (left, right):
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
    return _save(figure, path)


def write_comparison(found: Mapping[str, Any], groups: Groups, path: Path, against: str = "steps") -> Path:
    """Draw the curves of all groups and, beside them, their final held-out scores with 95 % intervals.

    Args:
        found: the document of ``llm-marl compare`` (:func:`results.compare_logged`).
        groups: the runs that it was made of, by label.
        path: the PNG to write.
        against: what curves are drawn against, one of ``AXES``.
    """
    count = len(groups)
    figure = _figure(15, max(4.0, 1.5 + 0.8 * count))
    left, right, bars = figure.subplots(1, 3, width_ratios=(1, 1, 0.9))
    ticks = []
    for place, (color, (label, members)) in enumerate(zip(_colors(), groups.items(), strict=False)):
        _draw_curves(left, right, members, label, color, against)
        group = found["groups"][place]
        for phase, offset, style in (("sampled", -_BAR / 2, {}), ("greedy", _BAR / 2, {"alpha": 0.45})):
            score = group[phase]["mean"]["score"]
            spread = [[score["value"] - score["low"]], [score["high"] - score["value"]]]
            bars.barh(place + offset, score["value"], _BAR, color=color, xerr=spread, capsize=3, **style)
        seeds = f"{len(members)} seed{'s' * (len(members) > 1)}, step {group['step']}"
        ticks.append("\n".join([*textwrap.wrap(label, _WRAP), seeds]))
    bars.set_yticks(range(count), ticks, fontsize="small")
    bars.invert_yaxis()  # the first group on top, as in the table
    best = found["groups"][0]["maxima"].get("score")
    of = "" if best is None else f" (of {best:g})"
    bars.set(title="final, held-out rows (pale: greedy)", xlabel=f"joint score{of}, 95 % interval")
    bars.grid(axis="x", alpha=0.3)
    bars.set_axisbelow(True)
    handles, labels = max((axis.get_legend_handles_labels() for axis in (left, right)), key=lambda x: len(x[1]))
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(count, 3), fontsize="small")
    return _save(figure, path)


def _figure(width: float, height: float) -> Any:
    """An empty figure, in inches, that is drawn in memory. Not pyplot's: choosing a backend there would take the
    inline plots from a notebook."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _colors() -> list[Any]:
    """Enough colours for any number of groups: the ten of the default cycle, over and over."""
    return [f"C{i % 10}" for i in range(1000)]


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    return path


def _draw_curves(
    left: Any, right: Any, members: Sequence[Logged], label: str, color: str, against: str = "steps"
) -> None:
    """Training score on the left, held-out score on the right."""
    left.set(title="training rows", xlabel=AXES[against], ylabel="joint score")
    right.set(title="held-out rows (sampled)", xlabel=AXES[against], ylabel="joint score")
    spent = [one.spent(against) for one in members]

    def places(steps: Sequence[int]) -> list[float]:
        """Where steps lie on the axis: the mean, since seeds of one setting sample more or fewer tokens."""
        for one, of in zip(members, spent, strict=True):
            if lacking := [step for step in steps if step not in of]:
                raise ConfigError(f"{one.run} does not tell what step {lacking[0]} took. Draw it with --x steps.")
        return [float(np.mean([of[step] for of in spent])) for step in steps]

    for axis in (left, right):
        axis.grid(alpha=0.3)
    train = [{step: r["score"] for step, r in one.of_phase("train").items()} for one in members]
    if steps := _common(train):
        width = max(len(steps) // 10, 1)
        values = np.array([_running_mean(np.array([s[step] for step in steps]), width) for s in train])
        mean = values.mean(axis=0)
        left.plot(places(steps), mean, label=label, color=color)
        if len(members) > 1:
            std = values.std(axis=0, ddof=1)
            left.fill_between(places(steps), mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
    held_out = [one.of_phase("eval") for one in members]
    if not (steps := _common(held_out)):
        return
    intervals = [
        _held_out([(one.run, found[step]) for one, found in zip(members, held_out, strict=True)]) for step in steps
    ]
    if len(steps) == 1:  # untrained models: a line to hold the curves against
        right.axhline(intervals[0].value, label=label, color=color, linestyle="--")
        right.axhspan(intervals[0].low, intervals[0].high, color=color, alpha=0.1, linewidth=0)
        return
    right.plot(places(steps), [i.value for i in intervals], label=label, color=color, marker="o", markersize=4)
    lows, highs = [i.low for i in intervals], [i.high for i in intervals]
    right.fill_between(places(steps), lows, highs, color=color, alpha=0.2, linewidth=0)


def _held_out(records: Sequence[tuple[Path, Record]]) -> Interval:
    """The held-out score of one evaluation of each run."""
    rows, first = row_scores(*records[0])
    return bootstrap(np.stack([first, *(row_scores(run, record, rows)[1] for run, record in records[1:])]))


def _common(series: Sequence[Mapping[int, Any]]) -> list[int]:
    """The steps that all runs have."""
    return sorted(set.intersection(*(set(s) for s in series)))


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Mean over the last ``width`` values, fewer at the start."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)

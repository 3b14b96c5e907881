"""What runs and evaluations found, for a person: tables and transcripts. ``figures`` draws."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from .logged import Record, read_lines, read_metrics
from .statistics import FEW_RUNS, Interval

COLUMNS = 4  # groups side by side
Shown = Mapping[str, float]  # an interval as JSON: value, low, high


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
    for name in dict.fromkeys(name for name in [*old, *new] if name.startswith(("term/", "pass@", "accuracy@"))):
        lines.append(f"    {name:14} {_number(old, name)}  ->  {_number(new, name)}")
    lines.append(
        f"    {'tokens':14} {old['tokens']:6.1f}  ->  {new['tokens']:6.1f}"
        f"   ({new['rows']} rows, {new['episodes']} episodes)"
    )
    samples = [s for s in read_lines(run / "samples.jsonl") if s["phase"] == "eval_greedy" and s["row"] == 0]
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
        if terms := turn.get("terms"):  # none in a step inside a turn (protocols), which scores nothing
            total = turn.get("score", sum(terms.values()))
            named = ", ".join(f"{name} {value:.2f}" for name, value in terms.items())
            parts.append(f"[score] {total:.2f} ({named})")
    return "\n".join(parts)


def _number(record: Record, name: str) -> str:
    return f"{record[name]:6.3f}" if name in record else "     -"


# -- tables -----------------------------------------------------------------------------------------------------------


def render_evaluations(found: Mapping[str, Any]) -> str:
    """The document of ``llm-marl eval`` as tables: one for each group, and one of the comparisons."""
    tables = [_evaluation_table(group) for group in found["groups"]]
    return _rendered([*tables, *_comparison_tables(found["comparisons"])])


def _evaluation_table(group: Mapping[str, Any]) -> Table:
    runs, seeds = group["runs"], group["seeds"]
    sampled, greedy = group["sampled"], group["greedy"]
    episodes = runs[0]["sampled"]["episodes"] // len(group["rows"])
    steps = ", ".join(map(str, sorted({run["step"] for run in runs})))
    several = len(seeds) > 1
    table = Table(
        title=f"{group['label']}: step {steps}",
        caption=(
            f"{_count(len(group['rows']), 'row')}, {_count(episodes, 'sampled episode')} of each and a greedy one; "
            f"{_seeds(seeds)}.\nMean and 95 % bootstrap interval over {_units(group['rows'])}{' and runs' * several}."
            f"{_warning([len(seeds)])}"
        ),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    for phase in ("sampled", "greedy"):
        table.add_column(phase, justify="right", no_wrap=True)

    def row(name: str, one: Shown | None, two: Shown | None, digits: int, unit: str = "") -> None:
        table.add_row(name, *(_interval(x, digits, unit) for x in (one, two)))

    for name in dict.fromkeys([*sampled["mean"], *greedy["mean"]]):
        digits = 1 if name.startswith("tokens") or name.endswith(("/words", "/characters")) else 3
        row(name, sampled["mean"].get(name), greedy["mean"].get(name), digits)
        if name in sampled["percent"]:
            maximum = f"  % of {group['maxima'][name]:g}"
            row(maximum, sampled["percent"][name], greedy["percent"].get(name), 1, " %")
        if several and name in sampled["iqm"]:
            row("  IQM over runs", sampled["iqm"][name], greedy["iqm"].get(name), 3)
    table.add_section()
    speeds = [
        sum(run[phase]["tokens"] * run[phase]["episodes"] for run in runs)
        / max(sum(run["speed"][phase]["seconds"] for run in runs), 1e-9)
        for phase in ("sampled", "greedy")
    ]
    table.add_row("tokens/s, batched", *(f"{speed:,.0f}" for speed in speeds))
    timed = [run["response_time"] for run in runs if run["response_time"] is not None]
    for key, name in (("sum", "response s, in turn"), ("maximum", "response s, at once")):
        if timed:
            table.add_row(name, f"{sum(t[key]['value'] for t in timed) / len(timed):.2f}", "")
    return table


def render_comparison(found: Mapping[str, Any]) -> str:
    """The document of ``llm-marl compare`` as one table, a column for each group; many groups fill several blocks."""
    groups, against = found["groups"], {(one["phase"], one["b"]): one for one in found["comparisons"]}
    blocks = [groups[i : i + COLUMNS] for i in range(0, len(groups), COLUMNS)]
    tables = [_comparison_block(block, against) for block in blocks]
    rows = groups[0]["rows"]
    tables[0].title = f"{_count(len(rows), 'held-out row')}, last evaluation of each run"
    seeds = [len(group["seeds"]) for group in groups]
    runs = " and runs" if min(seeds) > 1 else " and, where there are several, runs" if max(seeds) > 1 else ""
    notes = [f"Mean and 95 % bootstrap interval over {_units(rows)}{runs}.{_warning(seeds)}"]
    if len(groups) > 1:
        notes.append(
            f"Against {groups[0]['label']}: difference, and P(higher), the probability that an episode scores higher "
            "on the same row."
        )
    return "\n".join([_rendered(tables), "", *notes])


def _comparison_block(groups: Sequence[Mapping[str, Any]], against: Mapping[tuple[str, str], Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.add_column("", no_wrap=True)
    for group in groups:
        table.add_column("\n".join(textwrap.wrap(group["label"], 24)), justify="right", no_wrap=True)
    table.add_row("seeds", *(", ".join(map(str, group["seeds"])) for group in groups))
    table.add_row("step", *(str(group["step"]) for group in groups))
    for phase in ("sampled", "greedy"):
        table.add_section()
        told = [group[phase] for group in groups]
        table.add_row(f"{phase} score", *(_interval(one["mean"]["score"], 3) for one in told))
        if any(len(group["seeds"]) > 1 for group in groups):
            table.add_row("  IQM over runs", *(_interval(one["iqm"]["score"], 3) for one in told))
        if groups[0]["maxima"]:
            best = groups[0]["maxima"]["score"]
            table.add_row(f"  % of {best:g}", *(_interval(one["percent"].get("score"), 1, " %") for one in told))
        if against:
            pairs = [against.get((phase, group["label"]), {}) for group in groups]
            table.add_row("  difference", *(_interval(pair.get("difference"), 3) for pair in pairs))
            table.add_row("  P(higher)", *(_interval(pair.get("improvement"), 2) for pair in pairs))
        for name in dict.fromkeys(name for one in told for name in one["means"]):
            values = [one["means"].get(name) for one in told]
            digits = 1 if name.startswith("tokens") else 3
            table.add_row(f"  {name}", *("-" if v is None else f"{v:.{digits}f}" for v in values))
    table.add_section()
    for key, name in (("joint_actions", "joint actions"), ("tokens", "tokens sampled"), ("seconds", "seconds")):
        spent = [sum(costs[key] for costs in group["costs"]) / len(group["costs"]) for group in groups]
        table.add_row(f"{name}, a run", *(f"{value:,.0f}" for value in spent))
    return table


def _comparison_tables(comparisons: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A table for each first group, which is one."""
    if not comparisons:
        return []
    table = Table(
        title=f"Against {comparisons[0]['a']}, on the same rows",
        caption="Difference of mean scores, and the probability that an episode scores higher on the same row (0.5: no "
        "difference); 95 % bootstrap intervals, which of single runs say nothing about other seeds.",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    for name in ("", "phase", "difference", "P(higher)"):
        table.add_column(name, justify="left" if name in ("", "phase") else "right")
    for one in comparisons:
        table.add_row(one["b"], one["phase"], _interval(one["difference"], 3), _interval(one["improvement"], 2))
    return [table]


def _rendered(tables: Iterable[Table]) -> str:
    """As plain text, as wide as it needs to be: what is piped into a file must not be cut."""
    console = Console(width=1000, force_terminal=False, no_color=True, highlight=False)
    with console.capture() as capture:
        for table in tables:
            console.print(table)
            console.print()
    return "\n".join(line.rstrip() for line in capture.get().rstrip().split("\n"))


def _interval(shown: Shown | None, digits: int, unit: str = "") -> str:
    if shown is None:
        return "-"
    value, low, high = (f"{shown[key]:.{digits}f}" for key in ("value", "low", "high"))
    return f"{value}{unit} [{low}, {high}]"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def _units(rows: Sequence[str]) -> str:
    """What intervals are over, beside runs: of a single row, its episodes."""
    return "rows" if len(rows) > 1 else "episodes"


def _warning(seeds: Sequence[int]) -> str:
    few = any(1 < count < FEW_RUNS for count in seeds)
    alone = " Of a single run it says nothing about other seeds." * (1 in seeds)
    return alone + f" Over fewer than {FEW_RUNS} runs it is too narrow." * few


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} runs, seeds {', '.join(map(str, seeds))}"

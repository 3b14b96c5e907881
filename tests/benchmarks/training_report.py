"""What ``training.py`` prints: runs as lines, ratios with their spread, and whether the targets are reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from training_flops import update_flops

FLOAT = 4  # bytes
#: Target of prompts per hour over the peer's; of the whole peak over the peer's.
FASTER, LIGHTER = {"adapters": 4.0, "full": 2.5}, 0.5
THIRD_AGENT, ROLLOUT, RATE = 0.05, 1.15, 0.60

Run = Mapping[str, Any]


def line(name: str, run: Run) -> str:
    """One run: rate, phases and memory."""
    memory = run["memory"]
    seconds = run["rollout"] + run["update"]
    phases = (
        f"rollout {run['rollout'] / run['prompts']:6.2f} s, update {run['update'] / run['prompts']:6.2f} s a prompt"
    )
    return (
        f"{name:38s} {3600 * run['prompts'] / seconds:7.1f} prompts/h, {run['tokens'] / seconds:6.1f} tokens/s; {phases}; "
        f"{memory['peak']:5.0f} MB at most ({run['loaded'].get('now', float('nan')):.0f} when loaded)"
    )


def floors(found: Run) -> str:
    """What the machine and transformers do by themselves."""
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in found["generate"].items())
    return f"floors: a large matrix product {found['gemm']:.0f} GFLOP/s; bare generate: {seconds}"


def spread(values: Sequence[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def comparison(results: Run, model: str) -> str:
    """All ratios and the targets."""
    rounds = results["rounds"]
    out = ["", f"{len(rounds)} rounds; median (least to most) of what each round gave."]
    variants = [name for name in rounds[0] if name.split()[0] in FASTER]
    last = max(int(name.split()[1]) for name in variants)
    for name in variants:
        kind, rows = name.split()
        counts = int(rows) == last
        peer = f"peer {rows}"
        if peer in rounds[0]:
            faster = [rate(found[name]) / rate(found[peer]) for found in rounds]
            lighter = [found[name]["memory"]["peak"] / found[peer]["memory"]["peak"] for found in rounds]
            out.append(f"{kind}, {rows} a step, over the peer's:")
            out.append(told("  prompts per hour", faster, FASTER[kind] if counts else None, at_least=True))
            cpu = [processor(found[peer]) / processor(found[name]) for found in rounds]
            out.append(f"    the same by processor time (what other programs distort less): {spread(cpu)}")
            out += [
                f"    {phase:7s} {spread([found[peer][phase] / found[name][phase] for found in rounds])}"
                for phase in ("rollout", "update")
            ]
            out.append(told("  peak of memory", lighter, LIGHTER if counts else None, at_least=False))
        if counts:
            out.append(f"{kind}, {rows} a step, over the floors:")
            floor = [generate_floor(found, kind) for found in rounds]
            slower = [rollout(found[name]) / least for found, least in zip(rounds, floor, strict=True)]
            out.append(told("  rollout over bare generate", slower, ROLLOUT, at_least=False))
            rates = [arithmetic(found[name], model) / found["floors"]["gemm"] for found in rounds]
            out.append(told("  arithmetic rate of the update", rates, RATE, at_least=True))
    out += agents(results["agents"])
    return "\n".join(out)


def told(name: str, values: Sequence[float], target: float | None, at_least: bool) -> str:
    """A ratio and whether its median reaches the target, if it has one."""
    text = f"{name}: {spread(values)}"
    if target is None:
        return text
    middle = statistics.median(values)
    reached = middle >= target if at_least else middle <= target
    return f"{text}; target at {'least' if at_least else 'most'} {target:g}: {'reached' if reached else 'NOT reached'}"


def rate(run: Run) -> float:
    """Prompts per second."""
    return run["prompts"] / (run["rollout"] + run["update"])


def processor(run: Run) -> float:
    """Seconds of processor time a prompt, of all threads."""
    return (run["rollout_cpu"] + run["update_cpu"]) / run["prompts"]


def rollout(run: Run) -> float:
    """Seconds of one rollout."""
    return run["rollout"] / run["wanted"]["steps"]


def generate_floor(found: Run, kind: str) -> float:
    """Seconds of the quickest bare form that does what ours must: with adapters, or with weights for each agent."""
    times = found["floors"]["generate"]
    return times["base_by_agent"] if kind == "full" else min(times["lora_by_agent"], times["lora_mixed"])


def arithmetic(run: Run, model: str) -> float:
    """GFLOP/s of the updates of a run, by the count of :mod:`training_flops`."""
    lora = None if run["wanted"]["sharing"] == "full" else run["weights"]["one"]
    return update_flops(model, run["groups"], lora) / run["update"] / 1e9


def agents(runs: Mapping[int, Run]) -> list[str]:
    """What a third agent adds, as a share of the base model's memory."""
    two, three = (runs[n] for n in (2, 3))
    base = two["weights"]["base"] * FLOAT
    # A trained weight, its gradient and AdamW's two averages, all float32.
    held = 4 * FLOAT * (three["weights"]["trained"] - two["weights"]["trained"]) / base
    out = ["a third agent (adapters), as a share of the base model's memory:"]
    out.append(told("  its weights, gradients and AdamW's states", [held], THIRD_AGENT, at_least=False))
    for name, when in (("peak", "at most"), ("now", "at the end")):
        if name in two["memory"]:
            more = (three["memory"][name] - two["memory"][name]) * 2**20 / base
            out.append(f"  resident memory {when}: {more:+.2f} (includes its share of the batch, and the allocator's)")
    return out


def growth(found: Sequence[Run]) -> str:
    """The table, as Markdown: everything relative to the base case, which comes first."""
    base = found[0]

    def row(case: Run) -> str:
        step, first = seconds(case), seconds(base)
        changed = [name for name in ("agents", "turns", "group", "prompt") if case[name] != base[name]]
        name = ", ".join(f"{name} {case[name]}" for name in changed) or (
            "base: " + ", ".join(f"{name} {case[name]}" for name in ("agents", "turns", "group", "prompt"))
        )
        per_token = (step / tokens(case)) / (first / tokens(base))
        peak, at_first = case["memory"]["peak"], base["memory"]["peak"]
        return (
            f"| {name} | {tokens(case):.0f} | {step:.1f} s | {step / first:.2f} | {per_token:.2f} | "
            f"{rollout(case):.1f} s | {peak:.0f} MB | {peak / at_first:.2f} |"
        )

    head = "| case | tokens sampled | step | of base | of base, a token | of it rollout | peak | of base |"
    return "\n".join(["", head, "|---|---|---|---|---|---|---|---|", *map(row, found)])


def seconds(case: Run) -> float:
    """Seconds of one step."""
    return (case["rollout"] + case["update"]) / case["wanted"]["steps"]


def tokens(case: Run) -> float:
    """Tokens sampled in one step."""
    return case["tokens"] / case["wanted"]["steps"]

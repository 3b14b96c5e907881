"""One timed run of MAGRPO with this library, in a process of its own. ``training.py`` starts it.

    python tests/benchmarks/training_ours.py '{"model": ..., ...}'     # prints one line of JSON; see main() for the keys

The clock runs during rollouts (prompts, sampling, rewards) and updates (scoring, gradients, AdamW). Loading, warm-up
(the first step, in which memory is first allocated and AdamW's states are made), logs and checkpoints are left out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from training_work import clock, memory

from llm_marl_baselines import run
from llm_marl_baselines.batch import Batch
from llm_marl_baselines.plan import Start
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.settings import parse
from llm_marl_baselines.trainer import Trainer


def main() -> None:
    """Keys of the argument: model, env (an id), env_args, sharing, rows (episode starts of an update), group, tokens
    (of every response), steps (that are timed), threads, and profile (where tables of operators are
    written: what their names begin with, or "")."""
    wanted = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        trainer = build(wanted, Path(folder))
    found: dict[str, Any] = {"loaded": memory()}
    with ThreadPoolExecutor(8) as executor:
        play_and_learn(trainer, wanted, 0, executor)
        steps = [play_and_learn(trainer, wanted, step, executor) for step in range(1, wanted["steps"] + 1)]
    for phase, (wall, processor) in {"rollout": (0, 1), "update": (2, 3)}.items():
        found[phase] = sum(step["seconds"][wall] for step in steps)
        found[f"{phase}_cpu"] = sum(step["seconds"][processor] for step in steps)
    found["peaks"] = [step["peak"] for step in steps]
    found["prompts"] = wanted["rows"] * wanted["steps"]
    found["lengths"] = sorted({len(r.token_ids) for step in steps for r in step["batch"].responses})
    found["empty"] = sum(not r.raw_text.strip() for step in steps for r in step["batch"].responses)
    found["tokens"] = sum(len(r.token_ids) for step in steps for r in step["batch"].responses)
    found["groups"] = [group for step in steps for group in groups(step["batch"], trainer)]
    found |= {"memory": memory(), "weights": weights(trainer)}
    print(json.dumps(found), flush=True)


def build(wanted: dict[str, Any], folder: Path) -> Trainer:
    """The trainer of ``llm-marl train magrpo`` with these settings; its folder is not used."""
    settings = {
        "model": wanted["model"],
        "env": wanted["env"],
        "env_args": json.dumps(wanted["env_args"]),
        "sharing": wanted["sharing"],
        "rows_per_step": wanted["rows"],
        "algorithm.group_size": wanted["group"],
        "algorithm.max_joint_actions": 10**6,
        "sampling.max_new_tokens": wanted["tokens"],
        "steps": wanted["steps"] + 1,
        "threads": wanted["threads"],
        "optim.lr": 1e-5,
        "prompts.max_tokens": 4096,
        "device": "cpu",
        "dtype": "float32",
        "eval_every": -1,
        "trackers": "[]",
    }
    return run.build(parse("magrpo", [f"--{name}={value}" for name, value in settings.items()]), folder)


def play_and_learn(trainer: Trainer, wanted: dict[str, Any], step: int, executor: ThreadPoolExecutor) -> dict[str, Any]:
    """One step of training; seconds of its two phases by the wall and by the processor, and the peak after each."""
    profile = wanted["profile"] if step else ""
    starts = [Start(n, {"index": n % 16}) for n in range(step * wanted["rows"], (step + 1) * wanted["rows"])]
    begun = clock()
    with profiled(profile, "rollout"):
        batch = collect(
            trainer.policies, trainer.make_env, starts, trainer.algorithm.plan, seed=step, executor=executor
        )
    played, peak = clock(), memory()["peak"]
    with profiled(profile, "update"):
        for _ in trainer.algorithm.update(batch, trainer.policy):
            trainer.optimizers.step(step)
    learned = clock()
    seconds = [*(after - before for before, after in zip(begun, played, strict=True))]
    seconds += [after - before for before, after in zip(played, learned, strict=True)]
    return {"seconds": seconds, "peak": [peak, memory()["peak"]], "batch": batch}


@contextmanager
def profiled(prefix: str, phase: str) -> Iterator[None]:
    """Write which operators the phase spent its time in to ``prefix-phase.txt``, if there is a prefix. It slows the
    phase down, so that its times are no result."""
    if not prefix:
        yield
        return
    with torch.profiler.profile() as profile:
        yield
    table = profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=40, max_name_column_width=60)
    Path(f"{prefix}-{phase}.txt").write_text(table, encoding="utf-8")


def groups(batch: Batch, trainer: Trainer) -> list[dict[str, Any]]:
    """For each group of responses to one prompt: its prompt's tokens, and its responses' that have an advantage."""
    advantages = trainer.algorithm.advantages(batch)
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for b, response in enumerate(batch.responses):
        key = (int(batch.response_node[b]), int(batch.response_agent[b]))
        group = found.setdefault(key, {"prompt": len(response.prompt_ids), "learned": []})
        if advantages[b]:
            group["learned"].append(len(response.token_ids))
    return list(found.values())


def weights(trainer: Trainer) -> dict[str, int]:
    """Weights in memory by count: of the bases and, of each learner, those that are trained."""
    told = trainer.policy.describe()
    bases = {} if told["sharing"] == "full" else {name: base["parameters"] for name, base in told["bases"].items()}
    trained = {name: learner["trainable_parameters"] for name, learner in told["learners"].items()}
    return {"base": sum(bases.values()), "trained": sum(trained.values()), "one": max(trained.values())}


if __name__ == "__main__":
    main()

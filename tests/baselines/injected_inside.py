"""Faults of the process that trains, and of the files that it wrote. See ``injected.py``."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from forked import kill_self, numbers, on_call, output, run_cli
from injected import ARGS, GAME, RESUME, contents, fault, said, same_end, saved, undisturbed

from llm_marl_baselines import checkpoint, trainer
from llm_marl_baselines.optim import Optimizers
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.runlog import RunLog

# -- SIGKILL ----------------------------------------------------------------------------------------------------------

KILLS = 50


@fault("kills", f"SIGKILL at {KILLS} random moments, --resume after each", slow=True)
def kills(folder: Path) -> str:
    args = (*ARGS[:4], "--steps", "20", *ARGS[6:])
    expected, seconds = undisturbed(args)
    choose, places, runs = random.Random(0), Counter[str](), 0
    while sum(places.values()) < KILLS or (folder / "run").exists():
        begun = (folder / "run" / "config.yaml").exists()
        if not begun:
            shutil.rmtree(folder / "run", ignore_errors=True)  # killed before it was a run
        sabotage, after, place = None, None, ""
        if sum(places.values()) < KILLS:
            sabotage, after, place = _kill(choose, seconds)
        code = run_cli(RESUME if begun else args, folder, sabotage, after)
        assert code in (0, -signal.SIGKILL), output(folder)
        if code:
            places[place] += 1
        else:  # it was done before its time had come
            runs += 1
            assert numbers(folder) == expected
            shutil.rmtree(folder / "run")
    listed = ", ".join(f"{count} {place}" for place, count in sorted(places.items()))
    return f"{sum(places.values())} kills ({listed}); {runs} runs end byte-identical"


def _kill(choose: random.Random, seconds: float) -> tuple[Callable[[], None] | None, float | None, str]:
    """When the next life ends: by a clock, in the middle of a log line, or while a checkpoint is written."""
    kind = choose.choice(["by the clock", "by the clock", "in a log line", "in a checkpoint"])
    if kind == "by the clock":
        return None, choose.uniform(0, 0.8 * seconds), kind
    number, part = choose.randint(1, 12), choose.random()
    if kind == "in a log line":
        return lambda: _half_a_line(number, part), None, kind
    owner, name = choose.choice(
        [(HFPolicies, "save"), (Optimizers, "save"), (checkpoint, "flush"), (checkpoint, "sha256"), (os, "rename")]
    )
    after = part < 0.5
    return lambda: on_call(owner, name, min(number, 4), kill_self, after=after), None, kind


def _half_a_line(number: int, part: float) -> None:
    original, calls = RunLog.write, [0]

    def write(self: RunLog, name: str, record: dict) -> None:
        calls[0] += 1
        if calls[0] == number:
            line = json.dumps(record).encode()
            self._files[name].write(line[: int(part * len(line))])
            kill_self()
        original(self, name, record)

    RunLog.write = write


# -- damaged checkpoints ----------------------------------------------------------------------------------------------


def _flip(data: bytes, place: float = 0.5) -> bytes:
    changed = bytearray(data)
    changed[int(place * len(data))] ^= 1
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "one bit turned": _flip,
}


def spoil(path: Path, damage: str) -> None:
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))


def stopped_run(folder: Path) -> Path:
    """A run that was killed in its sixth step; it has the checkpoints of steps 2 and 4."""
    assert run_cli(ARGS, folder, lambda: on_call(trainer, "collect", 6, kill_self)) == -signal.SIGKILL, output(folder)
    assert saved(folder) == ["step-000002", "step-000004"]
    return folder / "run" / "checkpoints" / "step-000004"


def files_of(newest: Path) -> list[str]:
    return sorted(path.relative_to(newest).as_posix() for path in newest.rglob("*") if path.is_file())


def goes_back(folder: Path, name: str) -> None:
    """The run there, whose newest checkpoint is damaged in that file, ends as an undisturbed one."""
    same_end(folder)
    said(folder, "Checkpoint step-000004 is damaged", name, "Going on from step-000002.")
    assert (folder / "run" / "checkpoints" / "damaged-step-000004").is_dir()


@fault(
    "checkpoint", "each file of the newest checkpoint truncated, empty, zeroed, with one bit turned, gone", slow=True
)
def damaged_checkpoints(folder: Path) -> str:
    template = folder / "template"
    template.mkdir()
    files = files_of(stopped_run(template))
    assert {"SHA256SUMS", "optimizers.pt", "policy/learner0.safetensors", "state.json"} <= set(files)
    for name in files:
        for damage in (*DAMAGES, "gone"):
            case = folder / damage.replace(" ", "-") / name.replace("/", "-")
            shutil.copytree(template, case)
            spoil(case / "run" / "checkpoints" / "step-000004" / name, damage)
            goes_back(case, "SHA256SUMS is missing" if name == "SHA256SUMS" and damage == "gone" else "")
    return f"{len(files)} files x {len(DAMAGES) + 1}: each noticed, gone back to step 2, same numbers"


@fault("checkpoint-bit", "one bit of the weights of the newest checkpoint turned")
def one_bit(folder: Path) -> str:
    newest = stopped_run(folder)
    spoil(newest / "policy" / "learner0.safetensors", "one bit turned")
    for reading in (
        ["eval", "run"],
        ["export", "run", "--to", "out"],
        [*GAME[:-1], "other", "--policy.agent_2", "run"],
    ):
        assert run_cli(reading, folder) == 1, output(folder)
        said(folder, "step-000004 is damaged: policy/learner0.safetensors is not what was written", "--resume")
    goes_back(folder, "(policy/learner0.safetensors is not what was written)")
    return "eval, export and a seat refuse it; --resume goes back to step 2, same numbers"


@fault("checkpoints", "every checkpoint of a run damaged")
def all_damaged(folder: Path) -> str:
    newest = stopped_run(folder)
    spoil(newest / "optimizers.pt", "truncated")
    spoil(newest.with_name("step-000002") / "state.json", "one bit turned")
    before = contents(folder / "run")
    assert run_cli(RESUME, folder) == 1
    said(folder, "No checkpoint of run is whole", "step-000004: optimizers.pt", "step-000002: state.json", "copy")
    assert contents(folder / "run") == before
    return "refused, with what is wrong in each; no byte of the run is changed"


# -- a gradient that is NaN -------------------------------------------------------------------------------------------


@fault("nan", "NaN in one element of a gradient")
def nan(folder: Path) -> str:
    original, calls = Optimizers.step, [0]

    def step(self: Optimizers, number: int) -> dict[str, float]:
        calls[0] += 1
        if calls[0] == 4:
            parameter = next(p for ps in self._parameters.values() for p in ps if p.grad is not None)
            parameter.grad.view(-1)[7] = torch.nan
        return original(self, number)

    def inject() -> None:
        Optimizers.step = step

    assert run_cli(ARGS, folder, inject) == 1
    said(folder, "Step 3: the gradient of learner", "norm nan", "bad-batch-step-000003.npz", "checkpoint of step 3")
    batch = np.load(folder / "run" / "bad-batch-step-000003.npz")
    assert np.isfinite(batch["logprobs"]).all() and len(batch["texts"]) > 0
    # The checkpoint holds what three good steps made of the weights.
    assert saved(folder)[-1] == "step-000003"
    three = undisturbed((*ARGS[:4], "--steps", "3", *ARGS[6:]))[0]
    assert numbers(folder)["weights"] == three["weights"]
    same_end(folder)
    return "stopped before the step; batch and weights saved; --resume: same numbers"

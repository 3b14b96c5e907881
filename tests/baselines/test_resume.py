"""Runs that are killed, interrupted, or run out of disk: the resumed run ends byte-identical to one that was not."""

import errno
import os
import signal
import time

import pytest
from forked import kill_self, numbers, on_call, output, run_cli
from safetensors import SafetensorError

from llm_marl_baselines import checkpoint, files, trainer
from llm_marl_baselines.checkpoint import complete
from llm_marl_baselines.optim import Optimizers
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.runlog import RunLog

ARGS = (
    "train magrpo --env probe/two-turn-v0 --model tiny --steps 6 --checkpoint-every 2 --eval-every 3 --eval-episodes 8 "
    "--samples-every 2 --trackers [] --output run"
).split()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run_cli(ARGS, folder) == 0, output(folder)
    return numbers(folder)


def half_a_line() -> None:
    """The 9th log line is written half, then the machine is gone."""
    original, calls = RunLog.write, [0]

    def write(self, name, record):
        calls[0] += 1
        if calls[0] == 9:
            self._files[name].write(b'{"step": 3, "sc')
            kill_self()
        original(self, name, record)

    RunLog.write = write


KILLS = {
    "first rollout": lambda: on_call(trainer, "collect", 1, kill_self),
    "fifth rollout": lambda: on_call(trainer, "collect", 5, kill_self),
    "before an optimiser step": lambda: on_call(Optimizers, "step", 4, kill_self),
    "after an optimiser step": lambda: on_call(Optimizers, "step", 4, kill_self, after=True),
    "half a log line": half_a_line,
    "config.yaml, before it gets its name": lambda: on_call(files.os, "rename", 1, kill_self),
    "evaluation": lambda: on_call(trainer, "evaluate", 3, kill_self),
    "checkpoint, before its weights": lambda: on_call(HFPolicies, "save", 2, kill_self),
    "checkpoint, after its weights": lambda: on_call(HFPolicies, "save", 2, kill_self, after=True),
    "checkpoint, while flushing": lambda: on_call(checkpoint, "flush", 5, kill_self),
    "checkpoint, before it gets its name": lambda: on_call(checkpoint.os, "rename", 4, kill_self),
    "checkpoint, after it got its name": lambda: on_call(checkpoint.os, "rename", 4, kill_self, after=True),
    "while an old checkpoint is deleted": lambda: on_call(checkpoint.shutil, "rmtree", 1, kill_self),
    "after the last step": lambda: on_call(checkpoint.os, "rename", 5, kill_self),
}


@pytest.mark.parametrize("point", KILLS)
def test_killed_and_resumed_equals_undisturbed(point, tmp_path, undisturbed):
    assert run_cli(ARGS, tmp_path, KILLS[point]) == -signal.SIGKILL, output(tmp_path)
    again = ["train", "magrpo", "--resume", "run"]
    if point.startswith("config.yaml"):
        assert run_cli(again, tmp_path) == 2  # nothing was done yet: there is no run to go on with
        assert "holds no run" in output(tmp_path)
        (tmp_path / "run").rename(tmp_path / "leftover")
        again = ARGS
    assert run_cli(again, tmp_path) == 0, output(tmp_path)
    assert numbers(tmp_path) == undisturbed
    assert not list((tmp_path / "run" / "checkpoints").glob(".partial*"))


def test_killed_twice(tmp_path, undisturbed):
    assert run_cli(ARGS, tmp_path, KILLS["fifth rollout"]) == -signal.SIGKILL
    # The second life starts at step 4 and is killed at its second rollout.
    assert run_cli(["train", "--resume", "run"], tmp_path, lambda: on_call(trainer, "collect", 2, kill_self)) < 0
    assert run_cli(["train", "--resume", "run"], tmp_path) == 0, output(tmp_path)
    assert numbers(tmp_path) == undisturbed


def test_resuming_a_finished_run_changes_nothing(tmp_path, undisturbed):
    assert run_cli(ARGS, tmp_path) == 0
    assert run_cli(["train", "--resume", "run"], tmp_path) == 0, output(tmp_path)
    assert numbers(tmp_path) == undisturbed


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, undisturbed):
    interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    assert run_cli(ARGS, tmp_path, lambda: on_call(trainer, "collect", 3, interrupt)) == 130
    assert "Stopped after step 3 of 6, all saved. Go on with: llm-marl train --resume run" in output(tmp_path)
    assert [p.name for p in complete(tmp_path / "run")][-1] == "step-000003"
    assert run_cli(["train", "--resume", "run"], tmp_path) == 0, output(tmp_path)
    assert numbers(tmp_path) == undisturbed


def test_sigterm_saves_too(tmp_path, undisturbed):
    terminate = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
    assert run_cli(ARGS, tmp_path, lambda: on_call(trainer, "evaluate", 1, terminate)) == 130
    assert [p.name for p in complete(tmp_path / "run")] == ["step-000000"]  # noticed right after the first evaluation
    assert run_cli(["train", "--resume", "run"], tmp_path) == 0, output(tmp_path)
    assert numbers(tmp_path) == undisturbed


def test_a_second_ctrl_c_leaves_at_once(tmp_path):
    def twice():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    assert run_cli(ARGS, tmp_path, lambda: on_call(trainer, "collect", 4, twice)) == 130
    assert [p.name for p in complete(tmp_path / "run")] == ["step-000002"]


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


def full_disk_of_safetensors():
    """How safetensors reports it: in a class of its own."""
    raise SafetensorError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    "full",
    [
        lambda: on_call(Optimizers, "save", 2, full_disk),
        lambda: on_call(HFPolicies, "save", 2, full_disk_of_safetensors),
        lambda: on_call(RunLog, "sizes", 2, full_disk),
    ],
)
def test_a_full_disk_in_a_checkpoint(full, tmp_path, undisturbed):
    assert run_cli(ARGS, tmp_path, full) == 1
    said = output(tmp_path)
    assert "checkpoint of step 4" in said and "No space left" in said and "--resume" in said and "Traceback" not in said
    assert [p.name for p in complete(tmp_path / "run")] == ["step-000002"]
    assert run_cli(["train", "--resume", "run"], tmp_path) == 0
    assert numbers(tmp_path) == undisturbed


def test_a_full_disk_in_a_log_line(tmp_path, undisturbed):
    class Full:
        def __init__(self, file):
            self.file, self.lines = file, 0

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, line):
            self.lines += 1
            if self.lines == 3:
                self.file.write(line[:7])
                full_disk()
            return self.file.write(line)

    def sabotage():
        original = RunLog.__init__

        def init(self, *args, **kwargs):
            original(self, *args, **kwargs)
            self._files["metrics.jsonl"] = Full(self._files["metrics.jsonl"])

        RunLog.__init__ = init

    assert run_cli(ARGS, tmp_path, sabotage) == 1
    said = output(tmp_path)
    assert "metrics.jsonl could not be written" in said and "No space left" in said and "Traceback" not in said
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes().count(b"\n") == 2  # whole lines only
    assert run_cli(["train", "--resume", "run"], tmp_path) == 0
    assert numbers(tmp_path) == undisturbed


def test_resume_takes_no_other_settings(tmp_path):
    assert run_cli(ARGS, tmp_path, KILLS["fifth rollout"]) < 0
    assert run_cli(["train", "--resume", "run", "--optim.lr", "1"], tmp_path) == 2
    assert "start a new run" in output(tmp_path)
    assert run_cli(["train", "--resume", "elsewhere"], tmp_path) == 2
    assert "elsewhere holds no run" in output(tmp_path)
    assert run_cli(ARGS, tmp_path) == 2
    assert "holds another run" in output(tmp_path) and "--resume run" in output(tmp_path)

"""Checkpoints: a folder per step, complete or not there at all.

``RUN/checkpoints/step-000010/`` holds ``policy/`` (weights), ``optimizers.pt`` and ``state.json`` (the step, and how
long each log was). Random states need no file: every seed is a function of (run seed, step). A checkpoint is written
into a folder of another name, flushed to the disk, and then renamed, so a kill at any moment leaves the last complete
one. Resuming cuts the logs back to their length at that checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from llm_marl_envs.errors import LlmMarlError

from .optim import Optimizers
from .policies.base import TrainablePolicy

_PREFIX = "step-"
_PARTIAL = ".partial-"


class CheckpointError(LlmMarlError, OSError):
    """A checkpoint could not be written or read."""


def save(
    run: Path, step: int, policy: TrainablePolicy, optimizers: Optimizers, log_sizes: dict[str, int], keep: int
) -> Path:
    """Write the checkpoint after ``step`` updates, and delete all but the newest ``keep``.

    Raises:
        CheckpointError: it could not be written; earlier checkpoints are as they were.
    """
    folder = run / "checkpoints"
    partial, final = folder / f"{_PARTIAL}{step:06d}", folder / f"{_PREFIX}{step:06d}"
    try:
        if partial.exists():
            shutil.rmtree(partial)
        (partial / "policy").mkdir(parents=True)
        policy.save(partial / "policy")
        optimizers.save(partial / "optimizers.pt")
        (partial / "state.json").write_text(json.dumps({"step": step, "log_sizes": log_sizes}))
        for path in sorted(partial.rglob("*"), reverse=True):
            _flush(path)
        _flush(partial)
        os.rename(partial, final)
        _flush(folder)
    except (OSError, RuntimeError) as error:
        # torch reports a full disk as a RuntimeError of its file writer.
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"The checkpoint of step {step} could not be written to {folder}: {error}. Earlier checkpoints are intact. "
            "Free some space (or see to the permissions), then go on with --resume."
        ) from error
    for old in complete(run)[:-keep]:
        shutil.rmtree(old)
    return final


def complete(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted((run / "checkpoints").glob(f"{_PREFIX}*"))


def load(folder: Path, policy: TrainablePolicy, optimizers: Optimizers | None = None) -> dict[str, Any]:
    """Read a checkpoint into a policy and its optimisers; returns ``state.json``."""
    try:
        policy.load(folder / "policy")
        if optimizers is not None:
            optimizers.load(folder / "optimizers.pt")
        return json.loads((folder / "state.json").read_text())
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise CheckpointError(f"Checkpoint {folder} cannot be read: {type(error).__name__}: {error}") from error


def clean(run: Path) -> None:
    """Remove what a killed process left of a checkpoint that it was writing."""
    for partial in (run / "checkpoints").glob(f"{_PARTIAL}*"):
        shutil.rmtree(partial)


def _flush(path: Path) -> None:
    """Have the file or the folder's entries on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Checkpoints: a folder per step, complete or not there at all.

``RUN/checkpoints/step-000010/`` holds ``policy/`` (weights), ``optimizers.pt`` and ``state.json`` (the step, and how
long each log was). Random states need no file: every seed is a function of (run seed, step). A checkpoint is written
into a folder of another name, flushed to the disk, and then renamed, so a kill at any moment leaves the last complete
one. Resuming cuts the logs back to their length at that checkpoint.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .errors import CheckpointError
from .files import flush
from .optim import Optimizers
from .policies.base import TrainablePolicy

_PREFIX = "step-"
_PARTIAL = ".partial-"
# A full disk and a damaged file are reported by torch and safetensors in classes of their own.
_WRITE_ERRORS = (OSError, RuntimeError, SafetensorError)
_READ_ERRORS = (*_WRITE_ERRORS, ValueError, KeyError, EOFError, pickle.UnpicklingError, struct.error)


def save(
    run: Path,
    step: int,
    policy: TrainablePolicy,
    optimizers: Optimizers,
    log_sizes: Callable[[], dict[str, int]],
    keep: int,
) -> Path:
    """Write the checkpoint after ``step`` updates, and delete all but the newest ``keep``.

    ``log_sizes`` flushes the logs and tells their lengths.

    Raises:
        CheckpointError: it could not be written; earlier checkpoints are as they were.
    """
    folder = run / "checkpoints"
    partial, final = folder / f"{_PARTIAL}{step:06d}", folder / f"{_PREFIX}{step:06d}"
    if final.exists():  # Nothing moves between two checkpoints of one step.
        return final
    try:
        if partial.exists():
            shutil.rmtree(partial)
        (partial / "policy").mkdir(parents=True)
        policy.save(partial / "policy")
        optimizers.save(partial / "optimizers.pt")
        (partial / "state.json").write_text(json.dumps({"step": step, "log_sizes": log_sizes()}))
        for path in sorted(partial.rglob("*"), reverse=True):
            flush(path)
        flush(partial)
        os.rename(partial, final)
        flush(folder)
        for old in complete(run)[:-keep]:
            shutil.rmtree(old)
    except _WRITE_ERRORS as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"The checkpoint of step {step} could not be written to {folder}: {error}. Earlier checkpoints are intact. "
            "Free some space (or see to the permissions), then go on with --resume."
        ) from error
    return final


def complete(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    return sorted((run / "checkpoints").glob(f"{_PREFIX}*"), key=lambda path: int(path.name.removeprefix(_PREFIX)))


def load(folder: Path, policy: TrainablePolicy, optimizers: Optimizers | None = None) -> dict[str, Any]:
    """Read a checkpoint into a policy and its optimisers; returns ``state.json``."""
    try:
        policy.load(folder / "policy")
        if optimizers is not None:
            optimizers.load(folder / "optimizers.pt")
        return json.loads((folder / "state.json").read_text())
    except _READ_ERRORS as error:
        raise CheckpointError(
            f"Checkpoint {folder} cannot be read ({type(error).__name__}: {error}). Remove that folder to go on from "
            "the checkpoint before it."
        ) from error


def clean(run: Path) -> None:
    """Remove what a killed process left of a checkpoint that it was writing."""
    for partial in (run / "checkpoints").glob(f"{_PARTIAL}*"):
        shutil.rmtree(partial)

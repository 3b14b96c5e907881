"""Checkpoints: a folder per step, complete or not there at all.

``RUN/checkpoints/step-000010/`` holds ``policy/`` (weights), ``optimizers.pt``, ``state.json`` (the step, and how
long each log was) and ``SHA256SUMS`` of these files, in the form that ``sha256sum --check`` reads. Random states need
no file: every seed is a function of (run seed, step). A checkpoint is written into a folder of another name, flushed to
the disk, and then renamed, so a kill at any moment leaves the last complete one. Resuming cuts the logs back to their
length at that checkpoint.

A disk may spoil what was written: weights with one bit turned load without a word. So nothing is read before its
checksum. A resumed run goes on from the newest checkpoint that is whole, and writes the ones after it again, with the
same numbers. Who only reads a run (eval, export, a seat) is told instead: older weights are not what was asked for.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .errors import CheckpointError
from .files import flush, sha256
from .optim import Optimizers
from .policies.base import TrainablePolicy

_PREFIX = "step-"
_NAME = re.compile(rf"{_PREFIX}(\d+)")
_PARTIAL = ".partial-"
_DAMAGED = "damaged-"
STATE, SUMS = "state.json", "SHA256SUMS"
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
        (partial / STATE).write_text(json.dumps({"step": step, "log_sizes": log_sizes()}), encoding="utf-8")
        sums = _sums({name: sha256(path) for name, path in _files(partial).items()})
        (partial / SUMS).write_text(sums, encoding="utf-8")
        for path in sorted(partial.rglob("*"), reverse=True):
            flush(path)
        flush(partial)
        os.rename(partial, final)
        flush(folder)
        flush(run)  # which may have got the folder of checkpoints just now
    except _WRITE_ERRORS as error:
        free = shutil.disk_usage(run).free  # torch does not say it where a disk is full
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"The checkpoint of step {step} could not be written to {folder} ({free:,} bytes free there): {error}. "
            f"Earlier checkpoints are intact. Free some space (or see to the permissions), then --resume {run}."
        ) from error
    _delete(complete(run)[:-keep])
    return final


def complete(run: Path) -> list[Path]:
    """The checkpoints of a run that were written to the end, oldest first."""
    found = {int(m[1]): path for path in (run / "checkpoints").glob("*") if (m := _NAME.fullmatch(path.name))}
    return [found[step] for step in sorted(found)]


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint's files; None if each is as it was written."""
    try:
        written = (folder / SUMS).read_bytes()
        found = {name: sha256(path) for name, path in _files(folder).items()}
    except FileNotFoundError:
        return f"{SUMS} is missing"
    except OSError as error:
        return f"it cannot be read: {error}"
    if STATE in found and written == _sums(found).encode():
        return None
    lines = written.decode(errors="replace").split("\n")
    wanted = {name: digest for digest, _, name in (line.partition("  ") for line in lines) if name}
    for name in sorted({STATE, *wanted, *found}):
        if name not in found:
            return f"{name} is missing"
        if wanted.get(name) != found[name]:
            return f"{name} is not what was written"
    return f"{SUMS} is not what was written"


def newest(run: Path) -> Path | None:
    """The newest checkpoint, for who only reads it; None if there is none yet.

    Raises:
        CheckpointError: it is damaged.
    """
    saved = complete(run)
    if saved and (what := damage(saved[-1])):
        raise CheckpointError(
            f"Checkpoint {saved[-1]} is damaged: {what}. llm-marl train --resume {run} goes back to the newest whole "
            "one and writes this one again."
        )
    return saved[-1] if saved else None


def load(folder: Path, policy: TrainablePolicy, optimizers: Optimizers | None = None) -> dict[str, Any]:
    """Read a checkpoint that is whole into a policy and its optimisers; returns ``state.json``.

    Raises:
        CheckpointError: the policy or the optimisers are of another kind.
    """
    try:
        policy.load(folder / "policy")
        if optimizers is not None:
            optimizers.load(folder / "optimizers.pt")
        return json.loads((folder / STATE).read_text(encoding="utf-8"))
    except _READ_ERRORS as error:
        raise CheckpointError(
            f"Checkpoint {folder} is as it was written, and cannot be loaded here ({type(error).__name__}: {error}). "
            "Use the settings (config.yaml) and the versions (versions.json) of its run."
        ) from error


def load_newest(
    run: Path, policy: TrainablePolicy, optimizers: Optimizers, say: Callable[[str], None]
) -> dict[str, Any] | None:
    """Read the newest whole checkpoint, to go on from it. Damaged ones after it are renamed, so that they can be
    written again, and ``say`` is told.

    Returns:
        its ``state.json``; None if the run has no checkpoint yet.

    Raises:
        CheckpointError: all are damaged (and stay as they are), or it cannot be loaded.
    """
    spoilt: dict[Path, str] = {}
    for folder in reversed(complete(run)):
        if what := damage(folder):
            spoilt[folder] = what
            continue
        state = load(folder, policy, optimizers)
        for bad, what in spoilt.items():
            kept = _set_aside(bad)
            say(f"Checkpoint {bad.name} is damaged ({what}); it is kept as {kept.name}. Going on from {folder.name}.")
        return state
    if spoilt:
        listed = "; ".join(f"{folder.name}: {what}" for folder, what in spoilt.items())
        raise CheckpointError(
            f"No checkpoint of {run} is whole ({listed}). Nothing was changed. Put one back from a copy, or start a "
            "new run in another --output."
        )
    return None


def clean(run: Path) -> None:
    """Remove what a killed process left of a checkpoint that it was writing, or deleting."""
    for partial in (run / "checkpoints").glob(f"{_PARTIAL}*"):
        shutil.rmtree(partial)


def _files(folder: Path) -> dict[str, Path]:
    """Name -> path of all files of a checkpoint but its sums, in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {name: path for path in paths if (name := path.relative_to(folder).as_posix()) != SUMS}


def _sums(digests: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items())


def _set_aside(folder: Path) -> Path:
    """Rename a damaged checkpoint to a name that is free."""
    kept, number = folder.with_name(f"{_DAMAGED}{folder.name}"), 1
    while folder.exists() and kept.exists():
        number += 1
        kept = folder.with_name(f"{_DAMAGED}{folder.name}-{number}")
    with suppress(FileNotFoundError):  # another process of this run was faster
        os.rename(folder, kept)
    return kept


def _delete(old: list[Path]) -> None:
    for folder in old:
        try:
            # It loses its name first, so that a kill in the middle leaves no half of a checkpoint under it.
            going = folder.with_name(f"{_PARTIAL}{folder.name}")
            os.rename(folder, going)
            shutil.rmtree(going)
        except OSError as error:
            raise CheckpointError(
                f"The old checkpoint {folder} could not be deleted: {error}. The newer ones are complete: see to the "
                "permissions, then go on with --resume."
            ) from error

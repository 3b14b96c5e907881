"""Which rows a run is trained and evaluated on, so that a resumed run does not go on with others unnoticed.

``RUN/data.json`` holds, for the training and the held-out rows, their source, their number and a checksum of all their
fields in order. It is written when a run starts and compared when one is resumed. Environments read their rows once, so
that a file that changes while a process trains changes nothing before the next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pettingzoo import ParallelEnv

from llm_marl_envs import CollaborationEnv
from llm_marl_envs.errors import DataError

from .files import write_whole

DATA = "data.json"
Found = dict[str, dict[str, Any]]


def fingerprint(env: ParallelEnv) -> dict[str, Any] | None:
    """``source``, ``rows`` (their number) and ``sha256``; None for environments that are not ours and have no rows."""
    base = env.unwrapped
    if not isinstance(base, CollaborationEnv):
        return None
    digest = hashlib.sha256()
    for row in base.rows:
        digest.update(json.dumps(row, sort_keys=True, default=_plain).encode() + b"\n")
    return {"source": base.rows.source, "rows": len(base.rows), "sha256": digest.hexdigest()}


def check(run: Path, envs: Mapping[str, ParallelEnv], begun: bool) -> None:
    """Hold the rows against those that the run was started with, or note them if it has not begun.

    Args:
        run: the run's folder.
        envs: what the rows are for -> an environment with them.
        begun: whether the run has a checkpoint.

    Raises:
        DataError: other rows, or a run that has begun and does not say on which.
    """
    found = {use: of for use, env in envs.items() if (of := fingerprint(env)) is not None}
    path = run / DATA
    if not path.exists():
        if begun and found:
            raise DataError(
                f"{path} is missing: it says which rows {run} was started with, so that it does not go on with others. "
                "Put it back, or start a new run."
            )
        write_whole(path, json.dumps(found, indent=1) + "\n")
        return
    before = _read(path)
    changed = []
    for use in sorted({*before, *found}):
        then, now = before.get(use, {}), found.get(use, {})
        if then.get("sha256") != now.get("sha256"):
            changed.append(f"{use} rows: {_described(then)} then, {_described(now)} now")
    if changed:
        raise DataError(
            f"The rows have changed since {run} was started ({'; '.join(changed)}). Put them back as they were, or "
            "start a new run with these."
        )


def _described(found: Mapping[str, Any]) -> str:
    return f"{found['rows']} of {found['source']}, SHA-256 {found['sha256'][:12]}" if found else "none"


def _read(path: Path) -> Found:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}). Put it back as it was, or start a new run.") from error
    if not isinstance(found, dict) or not all(
        isinstance(value, dict) and {"rows", "source", "sha256"} <= value.keys() for value in found.values()
    ):
        raise DataError(f"{path} is damaged: it holds {found!r}. Put it back as it was, or start a new run.")
    return found


def _plain(value: Any) -> str:
    """Text for a value that JSON does not know; never an address in memory, which differs from run to run."""
    text = repr(value)
    return type(value).__qualname__ if text == object.__repr__(value) else text

"""Runs the command line in a forked child, which a test may kill at a chosen point without dying itself."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path


def run_cli(
    args: Sequence[str],
    folder: Path,
    sabotage: Callable[[], None] | None = None,
    kill_after: float | None = None,
) -> int:
    """Run ``llm-marl ARGS`` in ``folder``, output into ``folder/output.txt``.

    Args:
        sabotage: called in the child first; it patches what is to go wrong.
        kill_after: seconds until the child gets SIGKILL, if it has not ended before.

    Returns:
        the exit code, or minus the number of the signal that ended the child.
    """
    from llm_marl_baselines import cli

    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.chdir(folder)
            output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            # pytest captures by replacing the streams: give the child ones of its own.
            sys.stdout, sys.stderr = (open(fd, "w", buffering=1, closefd=False) for fd in (1, 2))
            if sabotage is not None:
                sabotage()
            code = cli.main(list(args))
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001 -- the child must not go on as a second pytest
            traceback.print_exc()
        finally:
            os._exit(code)
    ended, status = 0, 0
    deadline = None if kill_after is None else time.monotonic() + kill_after
    while deadline is not None and not ended:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended and time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    if not ended:
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def output(folder: Path) -> str:
    return (folder / "output.txt").read_text()


def numbers(folder: Path, run: str = "run") -> dict[str, bytes]:
    """What a resumed run must have in common with one that was never stopped, byte for byte."""
    path = folder / run
    newest = sorted((path / "checkpoints").glob("step-*"))[-1]
    weights = b"".join(file.read_bytes() for file in sorted((newest / "policy").rglob("*")) if file.is_file())
    found = {name: (path / name).read_bytes() for name in ("metrics.jsonl", "samples.jsonl")}
    return {**found, "weights": weights, "checkpoint": newest.name.encode()}


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(owner: object, name: str, number: int, act: Callable[[], None], *, after: bool = False) -> None:
    """Patch ``owner.name`` so that its ``number``-th call (from 1) does ``act`` first, or after it."""
    original, calls = getattr(owner, name), [0]

    def patched(*args, **kwargs):
        calls[0] += 1
        if calls[0] == number and not after:
            act()
        result = original(*args, **kwargs)
        if calls[0] == number and after:
            act()
        return result

    setattr(owner, name, patched)

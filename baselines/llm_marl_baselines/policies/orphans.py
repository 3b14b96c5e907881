"""Ends processes that a killed one has left behind.

A process that is killed (SIGKILL, no memory left) cannot end what it started, and vLLM's engine would then wait for
ever and hold its memory, so that the run could not go on. A small process of its own watches a pipe that ends with
whoever started it, however that ends; then it ends the others and removes their folder. This file is what it runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

PATIENCE = 10.0  # seconds between asking a process to end and killing it


def watch(folder: Path, processes: Sequence[psutil.Process]) -> subprocess.Popen[bytes]:
    """Start the watch over ``processes`` and ``folder``. It acts when its standard input is closed, at the latest by
    the end of the calling process, and then ends itself."""
    known = [f"{process.pid}:{process.create_time()}" for process in processes]
    # -P: files beside this one hide no modules of their names.
    command = [sys.executable, "-P", __file__, str(folder), *known]
    # A session of its own, so that what a terminal or a scheduler sends to the whole group does not end it first.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask the processes to end, and kill those that do not."""
    for signal in ("terminate", "kill"):
        for process in filter(_runs, processes):
            with suppress(psutil.NoSuchProcess):
                getattr(process, signal)()
        deadline = time.monotonic() + PATIENCE
        while any(map(_runs, processes)) and time.monotonic() < deadline:
            time.sleep(0.05)


def _runs(process: psutil.Process) -> bool:
    """Whether it does. One that has ended keeps its number until its parent asks; then it is a zombie."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _still_there(known: str) -> psutil.Process | None:
    pid, _, started = known.partition(":")
    try:
        process = psutil.Process(int(pid))
        return process if str(process.create_time()) == started else None  # else its number is another's by now
    except psutil.NoSuchProcess:
        return None


if __name__ == "__main__":
    sys.stdin.read()
    end([process for known in sys.argv[2:] if (process := _still_there(known)) is not None])
    shutil.rmtree(sys.argv[1], ignore_errors=True)

"""Several processes of one run, forked from the test, as a launcher would start them; forks need no new imports."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot  # noqa: F401 -- once here, and not in every fork

LIMIT = 120  # seconds; a run of these tests takes one or two, and one that hangs fails by it


def start(size: int, work: Callable[[int], Any], folder: Path) -> list[int]:
    """Fork ``size`` processes that call ``work(index)`` in ``folder``; returns their ids.

    What one prints is in ``folder/output-INDEX.txt``, what it returns in ``folder/result-INDEX``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
    sys.stdout.flush()
    sys.stderr.flush()
    children = []
    for index in range(size):
        pid = os.fork()
        if pid:
            children.append(pid)
            continue
        code = 70
        try:
            os.chdir(folder)
            os.environ.update({k: str(v) for k, v in {**told, "RANK": index, "LOCAL_RANK": index}.items()})
            output = os.open(f"output-{index}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout, sys.stderr = (open(fd, "w", buffering=1, closefd=False) for fd in (1, 2))
            code = _work(work, index)
        finally:
            os._exit(code)
    return children


def _work(work: Callable[[int], Any], index: int) -> int:
    from accelerate.state import AcceleratorState

    from llm_marl_baselines import parallel

    # Whatever of accelerate an earlier test has used made the parent one process alone, for good.
    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        result = work(index)
        Path(f"result-{index}").write_bytes(pickle.dumps(result))
        return result if isinstance(result, int) else 0
    except BaseException:  # noqa: BLE001 -- the child must not go on as a second pytest
        traceback.print_exc()
        return 71
    finally:
        parallel.finish()  # what Python calls at its end, which a fork of pytest must not reach


def wait(children: list[int]) -> list[int]:
    """Their exit codes, or minus the number of the signal that ended one. All have to end within the limit."""
    codes: dict[int, int] = {}
    until = time.monotonic() + LIMIT
    while len(codes) < len(children):
        for pid in children:
            if pid not in codes:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    codes[pid] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return [codes[pid] for pid in children]


def run(size: int, work: Callable[[int], Any], folder: Path) -> list[Any]:
    """What ``work(index)`` returns in each of ``size`` processes, which all have to end well."""
    codes = wait(start(size, work, folder))
    assert codes == [0] * size, said(folder)
    return [pickle.loads((folder / f"result-{index}").read_bytes()) for index in range(size)]


def cli(size: int, args: list[str], folder: Path, sabotage: Callable[[int], None] | None = None) -> list[int]:
    """Exit codes of ``llm-marl ARGS`` in each of ``size`` processes; ``sabotage(index)`` is called in each first."""

    def work(index: int) -> int:
        from llm_marl_baselines import cli as command

        if sabotage is not None:
            sabotage(index)
        return command.main(args)

    return wait(start(size, work, folder))


def said(folder: Path) -> str:
    """What all of them printed."""
    return "\n".join(path.read_text() for path in sorted(folder.glob("output-*.txt")))

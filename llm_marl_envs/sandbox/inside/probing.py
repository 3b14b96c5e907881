"""Tries to get out, from where a program would stand. Whatever works is a hole: the sandbox then refuses to start."""

from __future__ import annotations

import _socket
import ctypes
import os
import signal
from collections.abc import Callable
from typing import Any

_CLONE_NEWUSER = 0x10000000


def escapes(known: dict[str, Any]) -> list[str]:
    """What worked that must not.

    Args:
        known: ``open_files`` (whether reading files is allowed here), ``secret_file`` (a file outside the sandbox),
            ``environment`` (names that may be set).
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def fork() -> None:
        if os.fork() == 0:
            os._exit(0)

    def unshare() -> None:
        if libc.unshare(_CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), "unshare")

    def write() -> None:
        os.close(os.open("/probe", os.O_WRONLY | os.O_CREAT))

    attempts: dict[str, Callable[[], object]] = {
        "open a file outside the sandbox": lambda: os.close(os.open(known["secret_file"], os.O_RDONLY)),
        "create a file": write,
        "make a socket": _socket.socket,
        "fork": fork,
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "signal another process": lambda: os.kill(-1, signal.SIGCONT),
        "execute a program": lambda: os.execv("/bin/true", ["/bin/true"]),
        "make a user namespace": unshare,
    }
    if not known["open_files"]:
        attempts["open any file"] = lambda: os.close(os.open(os.__file__, os.O_RDONLY))
    worked = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, RuntimeError):
            continue
        worked.append(name)
    if set(os.environ) - set(known["environment"]) - {"PWD"}:  # bwrap sets PWD
        worked.append("read the environment of the trainer")
    return worked

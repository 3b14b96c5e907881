"""A disk that is really full: a file system of a few megabytes, in a forked child with a mount namespace of its own."""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 0x4000, 1 << 18


class NoMounts(Exception):  # noqa: N818 (it says what is the case)
    """This machine lets nobody mount a file system, not even in a namespace of its own."""


def with_small_disk(folder: Path, size: int, act: Callable[[Path], str]) -> str:
    """Call ``act(folder / "disk")`` in a child for which that folder is a file system of ``size`` bytes. Nothing of it is
    left afterwards.

    Returns:
        what ``act`` returns.

    Raises:
        NoMounts: see there.
        AssertionError: ``act`` failed; with its traceback.
    """
    disk = folder / "disk"
    disk.mkdir()
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            try:
                _mount(disk, size)
                told = "+" + act(disk)
            except NoMounts as error:
                told = f"?{error}"
            except BaseException:  # noqa: BLE001 -- the child must not go on as a second pytest
                told = "-" + traceback.format_exc()
            with open(writing, "w") as file:
                file.write(told)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as file:
        told = file.read()
    os.waitpid(pid, 0)
    if told.startswith("?"):
        raise NoMounts(told[1:])
    assert told.startswith("+"), told[1:]
    return told[1:]


def make_read_only(disk: Path) -> None:
    """From within ``act``: nothing can be written there any more."""
    _call("mount", b"none", bytes(disk), None, MS_REMOUNT | MS_RDONLY, None)


def fill(disk: Path, left: int = 0) -> None:
    """Fill the file system up, but for so many bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with open(disk / "ballast", "wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, max(free - left, 1))


def _mount(disk: Path, size: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        _call("unshare", CLONE_NEWNS)
    else:
        _call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)  # nothing of this is to be seen outside
    _call("mount", b"none", bytes(disk), b"tmpfs", 0, f"size={size}".encode())


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise NoMounts(f"{name}: {os.strerror(ctypes.get_errno())}")

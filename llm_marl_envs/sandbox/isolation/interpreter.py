"""Which Python runs inside: the interpreter below any virtual environment, its standard library, and nothing else."""

from __future__ import annotations

import functools
import json
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ...errors import SandboxUnavailable

#: The folder that holds the package ``inside``.
APP = Path(__file__).resolve().parent.parent

# No site (so no site-packages, no .pth files), no unsafe path entries, nothing written beside the sources.
FLAGS = ("-s", "-S", "-P", "-B")
# The whole environment of what runs inside, and all that a program can read of it. The hash seed is fixed so that the
# same program gives the same verdict, sets of text included. Symbols of libraries are looked up at the start, not by
# every forked process anew.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "LD_BIND_NOW": "1"}

# Prints where the standard library is and which files the interpreter and all extension modules are made of.
_PROBE = """
import importlib, json, os, sys, sysconfig
for name in sorted(sys.stdlib_module_names):
    if name.startswith("_") and name not in ("__main__", "__hello__", "__phello__"):
        try:
            importlib.import_module(name)
        except Exception:
            pass
with open("/proc/self/maps") as maps:
    files = sorted({line.split(maxsplit=5)[5].strip() for line in maps if "/" in line})
stdlib = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("DESTSHARED")]
print(json.dumps([sorted({p for p in stdlib if p and os.path.isdir(p)}), files]))
"""


@dataclass(frozen=True)
class Interpreter:
    """What has to be visible inside.

    Attributes:
        executable: a real path.
        libraries: folders of Python's own modules.
        shared: folders of shared libraries.
        loader: the program that the kernel starts for a dynamic executable; its path is written in the executable.
    """

    executable: str
    libraries: tuple[str, ...]
    shared: tuple[str, ...]
    loader: str


@functools.cache
def find() -> Interpreter:
    """Look at the interpreter below this one.

    Raises:
        SandboxUnavailable: it does not run, or not as expected.
    """
    executable = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    command = [executable, *FLAGS, "-W", "ignore", "-c", _PROBE]
    try:
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)
        libraries, files = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise SandboxUnavailable(
            f"The Python interpreter {executable} could not be started with an empty environment ({error}). Code is "
            "scored by an interpreter of its own: install a complete Python of this version."
        ) from error
    inside = tuple(os.path.realpath(folder) for folder in libraries)
    folders = {os.path.dirname(os.path.realpath(file)) for file in files if ".so" in os.path.basename(file)}
    shared = {folder for folder in folders if not any(_within(folder, library) for library in inside)}
    return Interpreter(executable, inside, tuple(sorted(shared)), _loader(executable))


def _loader(executable: str) -> str:
    """The path in the program header PT_INTERP of a 64-bit little-endian ELF file; empty for a static one."""
    with open(executable, "rb") as file:
        start = file.read(64)
        if start[:6] != b"\x7fELF\x02\x01":
            raise SandboxUnavailable(f"{executable} is no 64-bit ELF program; model-written code needs one to run in.")
        (headers,) = struct.unpack_from("<Q", start, 32)
        size, count = struct.unpack_from("<HH", start, 54)
        for number in range(count):
            file.seek(headers + number * size)
            header = file.read(56)
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", header)
            if kind == 3:
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode()
    return ""


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")

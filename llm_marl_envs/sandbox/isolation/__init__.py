"""How a process is shut in: one file a backend, each a class with the attributes of :class:`Isolation`.

``strict``   bubblewrap (namespaces, an almost empty read-only file system), and a system call filter
``seccomp``  the filter alone, without any file; an explicit choice where there are no user namespaces
``unsafe``   nothing but resource limits; an explicit choice that warns and stamps its results

A third party passes ``"package.module:Class"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...tables import Table


class Isolation(Protocol):
    """A backend.

    Attributes:
        name: shown in verdicts.
        isolated: whether the system call filter is loaded in front of every program.
        open_files: whether a program may open files for reading: only where the layer decides what there is to read.
    """

    name: str
    isolated: bool
    open_files: bool

    def command(self, code: str, arguments: Sequence[str]) -> list[str]:
        """The command line that runs Python code inside the layer. It is started with an empty environment, but for
        ``interpreter.ENVIRONMENT``.

        Args:
            code: Python that finds the package ``inside`` importable from the folder ``sys.argv[1]``.
            arguments: become ``sys.argv[2:]``.

        Raises:
            SandboxUnavailable: this backend cannot work here.
        """
        ...


ISOLATION = Table(
    "isolation backend",
    {
        "strict": "llm_marl_envs.sandbox.isolation.bubblewrap:Strict",
        "seccomp": "llm_marl_envs.sandbox.isolation.plain:Seccomp",
        "unsafe": "llm_marl_envs.sandbox.isolation.plain:Unsafe",
    },
)

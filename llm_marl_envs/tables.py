"""One way to turn a name into an object: a table of ``name -> "module:attribute"``.

Everything that varies (environments, feedback modes, algorithms, policies, trackers) is a line in ONE such table.
A third party passes ``"their.module:Thing"`` wherever a name is accepted and edits nothing here.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import ConfigError, MissingDependencyError, UnknownNameError


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest of ``known``, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def load_object(reference: str, *, install: str | None = None) -> Any:
    """Import ``"package.module:attribute"`` and return the attribute.

    Args:
        reference: module path and attribute, joined by a colon. The attribute may be dotted (``"m:Class.method"``).
        install: the command that installs what the module needs, for the error message.

    Raises:
        ConfigError: the reference is not of that form.
        UnknownNameError: the module or the attribute does not exist.
        MissingDependencyError: the module exists, and one that it imports does not; or ``install`` says how to get it.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigError(f"{reference!r} is not of the form 'package.module:attribute'.")
    target: Any = import_module(module_name, install=install)
    for part in attribute.split("."):
        if not hasattr(target, part):
            hint = did_you_mean(part, [n for n in dir(target) if not n.startswith("_")])
            raise UnknownNameError(f"Module {module_name!r} has no attribute {attribute!r}.{hint}")
        target = getattr(target, part)
    return target


def import_module(module_name: str, *, install: str | None = None) -> Any:
    """Import a module; see :func:`load_object` for the errors."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if install is None and (module_name == missing or module_name.startswith(missing + ".")):
            raise UnknownNameError(
                f"There is no module {missing!r} (asked for by {module_name!r}). "
                "Check the spelling, and that its package is installed in this environment."
            ) from error
        remedy = install or f"pip install {missing.partition('.')[0]}"
        raise MissingDependencyError(
            f"{module_name!r} needs the module {missing!r}, which is not installed. Install it: {remedy}"
        ) from error


class Table:
    """A table of names, each standing for ``"module:attribute"`` (imported on first use) or for an object.

    Args:
        kind: what the names stand for, as the user knows it ("feedback mode"); used in messages.
        entries: the table.

    >>> Table("shape", {"cube": "shapes:Cube"}).resolve("cub")
    Traceback (most recent call last):
    llm_marl_envs.errors.UnknownNameError: Unknown shape 'cub'. Did you mean 'cube'? Known: cube. ...
    """

    def __init__(self, kind: str, entries: Mapping[str, str | Callable[..., Any]]):
        self.kind = kind
        self._entries: dict[str, str | Callable[..., Any]] = dict(entries)

    def __iter__(self):
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> str | Callable[..., Any]:
        """The entry as registered, without importing it."""
        if name not in self._entries:
            raise self.unknown(name)
        return self._entries[name]

    def add(self, name: str, entry: str | Callable[..., Any]) -> None:
        """Register a name. Registering the same entry again is harmless; another entry under it is an error."""
        if name in self._entries and self._entries[name] != entry:
            raise ConfigError(
                f"The {self.kind} {name!r} is registered already, as {self._entries[name]!r}. Choose another name."
            )
        self._entries[name] = entry

    def unknown(self, name: str) -> UnknownNameError:
        return UnknownNameError(
            f"Unknown {self.kind} {name!r}.{did_you_mean(name, self._entries)} "
            f"Known: {', '.join(sorted(self._entries))}. Your own is named 'package.module:attribute'."
        )

    def resolve(self, name: str | Callable[..., Any]) -> Any:
        """Return the object for a name, for ``"package.module:attribute"``, or the object itself if it is one."""
        if not isinstance(name, str):
            return name
        if name in self._entries:
            entry = self._entries[name]
            return load_object(entry) if isinstance(entry, str) else entry
        if ":" in name:
            return load_object(name)
        raise self.unknown(name)

"""Environments that other installed packages bring, found by their entry points.

A package says in its ``pyproject.toml`` which module registers the ids of which namespace:

    [project.entry-points.llm_marl_envs]
    rhymes = "team_rhymes"

The module calls ``register("rhymes/couplet-v0", ...)`` when it is imported. Nothing is imported before somebody asks:
``make("rhymes/couplet-v0")`` imports the modules of that namespace, and a list of all environments imports every one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from .checks.findings import described
from .registry import ENVIRONMENTS, registered
from .tables import import_module

GROUP = "llm_marl_envs"


@dataclass(frozen=True)
class Listed:
    """A registered environment.

    Attributes:
        env_id: as ``make`` takes it.
        target: what builds it, ``module:function``.
        source: the distribution that it belongs to, with its version; "" for a module that no plugin names.
    """

    env_id: str
    target: str
    source: str


@dataclass(frozen=True)
class Broken:
    """A plugin that cannot be imported: its module, its distribution, and its error in a line."""

    module: str
    source: str
    error: str


def load(namespace: str) -> None:
    """Import the modules that register ids of this namespace. What they raise is not caught."""
    for entry_point in entry_points(group=GROUP, name=namespace):
        import_module(entry_point.module)


def everything() -> tuple[list[Listed], list[Broken]]:
    """All environments, those of plugins too; and the plugins that cannot be imported, which keep none of the rest
    out."""
    from . import __version__

    sources, broken = {__package__: f"llm-marl-envs {__version__}"}, []
    for entry_point in entry_points(group=GROUP):
        sources[_top(entry_point.module)] = _distribution(entry_point)
        try:
            import_module(entry_point.module)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is shown beside what works
            broken.append(Broken(entry_point.module, _distribution(entry_point), described(error)))
    return [Listed(i, target_of(i), sources.get(_top(target_of(i)), "")) for i in registered()], broken


def target_of(env_id: str) -> str:
    """What builds an environment, as ``module:function``, without importing it."""
    entry = ENVIRONMENTS[env_id]
    return entry if isinstance(entry, str) else f"{entry.__module__}:{getattr(entry, '__qualname__', repr(entry))}"


def _top(module: str) -> str:
    return module.partition(":")[0].partition(".")[0]


def _distribution(entry_point: EntryPoint) -> str:
    return f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist else entry_point.module

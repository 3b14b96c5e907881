"""THE TABLE of environments: id -> ``"module:function"``, and ``make``.

An id is ``namespace/name-vN``. Anything that can move a result bumps N; an old id then fails with the new one's name.
``"package.module:namespace/name-v0"`` imports ``package.module`` first, which registers its environments as it is
imported. An installed package may name that module as an entry point (``plugins``); then the id alone will do. Where
PettingZoo has a registry (1.27 and later) every id is there too, as ``parallel`` and as ``aec``.
Gymnasium's registry has one id, ``llm_marl_envs/SingleAgent-v0``: any of ours, played by one agent.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import gymnasium
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from .env import CollaborationEnv
from .errors import ConfigError, UnknownNameError
from .tables import Table, did_you_mean, import_module

try:
    from pettingzoo import register as _pettingzoo_register
except ImportError:  # PettingZoo < 1.27 has no registry.
    _pettingzoo_register = None

GYMNASIUM_ID = "llm_marl_envs/SingleAgent-v0"
_ID = re.compile(r"(?P<base>[\w\-.]+/[\w\-.]+?)-v(?P<version>\d+)")

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")

EntryPoint = str | Callable[..., ParallelEnv]
ENVIRONMENTS = Table("environment", {})


class _MakeAec:
    """The AEC form of an id, as PettingZoo's registry calls it. A class, so that it pickles."""

    def __init__(self, env_id: str):
        self.env_id = env_id

    def __call__(self, **kwargs: Any) -> Any:
        return parallel_to_aec(make(self.env_id, **kwargs))


class _MakeParallel(_MakeAec):
    def __call__(self, **kwargs: Any) -> Any:
        return make(self.env_id, **kwargs)


def register(env_id: str, entry_point: EntryPoint) -> None:
    """Add an environment.

    Args:
        env_id: ``namespace/name-vN``.
        entry_point: a function that returns a ``ParallelEnv``, or ``"package.module:function"``.

    Raises:
        ConfigError: the id is not of that form, or taken by something else.
    """
    if _ID.fullmatch(env_id) is None:
        raise ConfigError(f"Environment id {env_id!r} is not of the form 'namespace/name-v0'.")
    known = env_id in ENVIRONMENTS
    ENVIRONMENTS.add(env_id, entry_point)
    if _pettingzoo_register is not None and not known:
        _pettingzoo_register("parallel", env_id, entry_point=_MakeParallel(env_id))
        _pettingzoo_register("aec", env_id, entry_point=_MakeAec(env_id))


def make(env_id: str, **kwargs: Any) -> ParallelEnv:
    """Build an environment.

    Args:
        env_id: a registered id, or ``"package.module:id"``.
        **kwargs: passed to the environment's function; its page lists them.

    Raises:
        UnknownNameError: no such id; the message offers the nearest, or the version that replaced it.
        ConfigError: a keyword that the environment does not take, one that it needs, or a value outside its range.
    """
    module, colon, name = env_id.rpartition(":")
    if colon:
        import_module(module)
    elif name not in ENVIRONMENTS:
        from .plugins import load  # here, since reading the metadata of all packages takes a while

        load(name.partition("/")[0])
    if name not in ENVIRONMENTS:
        raise _unknown(name, module)
    build = ENVIRONMENTS.resolve(name)
    try:
        env = build(**kwargs)
    except TypeError as error:
        if lacking := _required(build) - set(kwargs):
            one = min(lacking)
            raise ConfigError(
                f"{name} cannot be made without {', '.join(sorted(lacking))}: make({name!r}, {one}=...). At the prompt "
                f"--arg {one}=... of python -m llm_marl_envs, --env_args.{one} ... of llm-marl."
            ) from error
        if (found := _UNEXPECTED.search(str(error))) is None or found[1] not in kwargs:
            raise
        accepted = [p for f in (build, CollaborationEnv) for p in inspect.signature(f).parameters]
        known = sorted(set(accepted) - {"self", "task", "rows", "kwargs", "env_kwargs"})
        raise ConfigError(
            f"{name} takes no keyword {found[1]!r}.{did_you_mean(found[1], known)} It takes: {', '.join(known)}."
        ) from error
    if not hasattr(env, "metadata"):
        raise ConfigError(f"The function of {name} returned {env!r}, which is no environment: let it return one.")
    env.metadata = {**env.metadata, "id": name}
    return env


def _required(build: Any) -> set[str]:
    """The keywords without which a function of an environment cannot be called."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(build).parameters.values()
    return {p.name for p in parameters if p.kind in named and p.default is inspect.Parameter.empty}


def registered() -> list[str]:
    """All ids that are registered by now, sorted. ``plugins.everything`` also imports what installed packages bring."""
    return sorted(ENVIRONMENTS)


def _unknown(env_id: str, module: str = "") -> UnknownNameError:
    found = _ID.fullmatch(env_id)
    base = found["base"] if found else env_id
    others = [e for e in registered() if e.rpartition("-v")[0] == base]
    if others and found:
        newest = max(others, key=lambda e: int(e.rpartition("-v")[2]))
        return UnknownNameError(f"There is no {env_id!r}; this release has {newest!r}.")
    if others:
        return UnknownNameError(f"Environment {env_id!r} needs its version: {others[-1]!r}.")
    if module:
        from .plugins import target_of

        package = module.partition(".")[0]
        own = [e for e in registered() if target_of(e).partition(":")[0].partition(".")[0] == package]
        has = f"it registers: {', '.join(own)}" if own else "it registers none"
        return UnknownNameError(
            f"Module {module!r} registers no environment {env_id!r}.{did_you_mean(env_id, own)} As it is imported, "
            f"{has}. To add one: register({env_id!r}, '{module}:FUNCTION') at its end."
        )
    return UnknownNameError(
        f"Unknown environment {env_id!r}.{did_you_mean(env_id, ENVIRONMENTS)} Known: {', '.join(registered())}. One of "
        "your own is named 'package.module:namespace/name-v0', by the module that registers it."
    )


_OURS = {
    "coding/coop-humaneval-v0": "llm_marl_envs.coding.coop_humaneval:parallel_env",
    "coding/humaneval-v0": "llm_marl_envs.coding.humaneval:parallel_env",
    "coding/mbpp-v0": "llm_marl_envs.coding.mbpp:parallel_env",
    "probe/own-word-v0": "llm_marl_envs.probes:own_word",
    "probe/same-word-v0": "llm_marl_envs.probes:same_word",
    "probe/two-turn-v0": "llm_marl_envs.probes:two_turn",
    "writing/arxiv-v0": "llm_marl_envs.writing.arxiv:parallel_env",
    "writing/tldr-v0": "llm_marl_envs.writing.tldr:parallel_env",
}
#: The ids of this package, in order; those of others, and of its integrations, are registered when they are imported.
BUILT_IN = tuple(_OURS)
for _env_id, _entry_point in _OURS.items():
    register(_env_id, _entry_point)

if GYMNASIUM_ID not in gymnasium.registry:
    gymnasium.register(GYMNASIUM_ID, entry_point="llm_marl_envs.wrappers.single:make_gymnasium")

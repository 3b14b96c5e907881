"""What ``check_env`` plays and compares with: copies, sampled episodes, and the first place where two differ."""

from __future__ import annotations

import contextlib
import copy
import math
import numbers
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper

from .errors import LlmMarlError
from .spaces import TextObservation

SEED = 7
MAX_STEPS = 64


def fresh_copy(env: ParallelEnv) -> ParallelEnv:
    """A copy; of an environment that can be copied in no way, itself, to be reset."""
    for make_copy in (lambda: pickle.loads(pickle.dumps(env)), lambda: copy.deepcopy(env)):
        with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError):
            return make_copy()
    return env


def is_finite(value: Any) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)


class WithDtype(BaseParallelWrapper):
    """Gives plain text the ``dtype`` that PettingZoo's ``api_test`` reads from every observation."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._typed(observations), infos

    def step(self, actions: Any) -> Any:
        observations, *rest = self.env.step(actions)
        return self._typed(observations), *rest

    @staticmethod
    def _typed(observations: Mapping[str, Any]) -> dict[str, Any]:
        return {a: TextObservation(o) if type(o) is str else o for a, o in observations.items()}


class ActionPlan:
    """The same actions for the same spaces, whatever the state of the spaces' own generators."""

    def __init__(self, env: ParallelEnv):
        self.env = env
        for i, agent in enumerate(env.possible_agents):
            env.action_space(agent).seed(SEED + i)

    def next(self, observations: Mapping[str, Any] | None = None) -> dict[str, Any]:
        actions = {}
        for agent in self.env.agents:
            seen = (observations or {}).get(agent)
            mask = seen["action_mask"] if isinstance(seen, Mapping) and "action_mask" in seen else None
            space = self.env.action_space(agent)
            actions[agent] = space.sample() if mask is None else space.sample(mask=mask)
        return actions


def play(
    env: ParallelEnv, seed: int, max_steps: int = MAX_STEPS
) -> Iterator[tuple[list[str], Mapping[str, Any], Any, Any]]:
    """Play one episode; yields (agents that acted, observations, actions, results), the reset with None for both."""
    plan = ActionPlan(env)
    observations, _ = env.reset(seed=seed)
    yield list(env.agents), observations, None, None
    for _ in range(max_steps):
        if not env.agents:
            return
        acted, actions = list(env.agents), plan.next(observations)
        results = env.step(actions)
        observations = results[0]
        yield acted, observations, actions, results


def record(env: ParallelEnv, seed: int) -> list[Any]:
    return [Comparable((acted, obs, actions, results)) for acted, obs, actions, results in play(env, seed)]


def step(env: ParallelEnv, actions: Mapping[str, Any]) -> Any:
    return Comparable(env.step(dict(actions)))


def picture(env: ParallelEnv) -> Any:
    """What can be seen of an environment without stepping it."""
    parts: list[Any] = [list(env.agents)]
    with contextlib.suppress(NotImplementedError, LlmMarlError):
        parts.append(env.state())
    if (rng := getattr(env, "np_random", None)) is not None:
        parts.append(copy.deepcopy(rng.bit_generator.state))
    return Comparable(parts)


class Comparable:
    """A nested value whose ``==`` is a single truth, arrays and NaN included."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comparable) and same(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]


def same(one: Any, two: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(same(one[k], two[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return np.array_equal(one, two)
    return bool(one == two) or (one != one and two != two)


def difference(one: Any, two: Any) -> str:
    """The first place where two values differ."""
    one, two = (v.value if isinstance(v, Comparable) else v for v in (one, two))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        keys = [k for k in {**one, **two} if not (k in one and k in two and same(one[k], two[k]))]
        return f"[{keys[0]!r}] {difference(one.get(keys[0]), two.get(keys[0]))}" if keys else "(equal)"
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)) and len(one) == len(two):
        return next((difference(a, b) for a, b in zip(one, two, strict=True) if not same(a, b)), "(equal)")
    return f"{short(one)} against {short(two)}"


def short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 120 else f"{shown[:117]}... ({type(value).__name__})"

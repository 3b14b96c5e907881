"""What the checks play: copies of an environment, and episodes with sampled actions."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pettingzoo import ParallelEnv

from ..errors import LlmMarlError
from .comparing import Comparable
from .findings import RuleBroken, raised, short

SEED = 7
MAX_STEPS = 64
MAX_HORIZON = 1_000  # an episode that is longer is taken for one that never ends
STEPS = ("observations", "rewards", "terminations", "truncations", "infos")


@dataclass(frozen=True)
class Played:
    """One reset or step of an episode.

    Attributes:
        number: 0 for the reset, then the steps.
        acted: the agents that were in ``env.agents`` when the step began; after a reset those that it started with.
        observations: as the environment returned them.
        actions: what was handed in; None for the reset.
        results: what ``step`` returned; None for the reset.
        infos: as the environment returned them.
    """

    number: int
    acted: list[str]
    observations: Mapping[str, Any]
    actions: dict[str, Any] | None
    results: Any
    infos: Mapping[str, Any]

    @property
    def where(self) -> str:
        return where(self.number)


def where(number: int) -> str:
    """A place in an episode, as messages name it."""
    return f"step {number} after reset(seed={SEED})" if number else f"reset(seed={SEED})"


def fresh_copy(env: ParallelEnv) -> ParallelEnv:
    """A copy; of an environment that can be copied in no way, itself, to be reset."""
    for make_copy in (lambda: pickle.loads(pickle.dumps(env)), lambda: copy.deepcopy(env)):
        with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError):
            return make_copy()
    return env


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


def play(env: ParallelEnv, seed: int = SEED, max_steps: int = MAX_STEPS) -> Iterator[Played]:
    """Play one episode; yields the reset and each step."""
    plan = ActionPlan(env)
    observations, infos = reset(env, seed)
    yield Played(0, list(env.agents), observations, None, None, infos)
    for number in range(1, max_steps + 1):
        if not env.agents:
            return
        acted, actions = list(env.agents), plan.next(observations)
        results = step(env, actions, number)
        observations, infos = results[0], results[4]
        yield Played(number, acted, observations, actions, results, infos)


def reset(env: ParallelEnv, seed: int | None = SEED) -> Any:
    """What ``reset`` returns."""
    try:
        return env.reset(seed=seed)
    except RuleBroken:
        raise
    except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
        raise raised(f"reset(seed={seed})", error) from error


def step(env: ParallelEnv, actions: Mapping[str, Any], number: int) -> Any:
    """What ``step`` returns."""
    try:
        return env.step(dict(actions))
    except RuleBroken:
        raise
    except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
        raise raised(where(number), error, f"; the actions were {short(dict(actions))}") from error


def record(env: ParallelEnv, seed: int = SEED) -> list[Comparable]:
    """All that an episode showed, reset and steps in order."""
    return [
        Comparable({"agents": p.acted, **(named(p.results) if p.results else {STEPS[0]: p.observations})})
        for p in play(env, seed)
    ]


def stepped(env: ParallelEnv, actions: Mapping[str, Any], number: int) -> Comparable:
    """What ``step`` returns, to be compared."""
    return Comparable(named(step(env, actions, number)))


def named(results: Any) -> dict[str, Any]:
    """What ``step`` returned, under the names of its five parts."""
    return dict(zip(STEPS, results, strict=True))


def picture(env: ParallelEnv) -> Comparable:
    """What can be seen of an environment without stepping it."""
    parts: dict[str, Any] = {"agents": list(env.agents)}
    with contextlib.suppress(NotImplementedError, LlmMarlError):
        parts["state()"] = env.state()
    if (rng := getattr(env, "np_random", None)) is not None:
        parts["np_random"] = copy.deepcopy(rng.bit_generator.state)
    return Comparable(parts)

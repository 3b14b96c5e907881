"""Where random numbers come from: the same seed gives the same episode, and nothing global is used."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from .comparing import Comparable, difference, same
from .findings import fail
from .playing import SEED, fresh_copy, record, reset

_OWN = (
    "In reset(): if seed is not None: self._np_random, _ = gymnasium.utils.seeding.np_random(seed); and draw from "
    "self.np_random, in step() too."
)


def check_determinism(env: ParallelEnv) -> None:
    """The same seed gives the same episode on two copies, to the last step, whatever they played before."""
    one, two = fresh_copy(env), fresh_copy(env)
    for seed in range(SEED, SEED + 20):
        whole = seed < SEED + 4  # the others are reset only: with few rows, chance picks the same one several times
        first = record(one, seed) if whole else [_start(one, seed)]
        reset(two, None)  # or a copy that ignores the seed would stay in step, since it has a copy of the generator
        second = record(two, seed) if whole else [_start(two, seed)]
        for number, (mine, its) in enumerate(zip(first, second, strict=False)):
            if mine != its:
                fail(
                    f"the seed is not kept to: two copies that were reset with seed={seed} and given the same actions "
                    f"differ at {f'step {number}' if number else 'reset(seed=...)'}: {difference(mine, its)}.",
                    _OWN,
                )
        if len(first) != len(second):
            fail(
                f"the seed is not kept to: two copies that were reset with seed={seed} and given the same actions "
                f"ended after {len(first) - 1} and {len(second) - 1} steps.",
                _OWN,
            )


def _start(env: ParallelEnv, seed: int) -> Comparable:
    return Comparable({"observations": reset(env, seed)[0]})


def check_global_random_state(env: ParallelEnv) -> None:
    """An episode neither reads nor moves the global random generators."""
    generators = _generators()
    saved = [state() for _, _, state, _ in generators]
    episodes = []
    try:
        # Two states that no environment sets by itself, so that one which seeds the generators is seen too.
        for global_seed in (20_110, 41_713):
            for _, seed, _, _ in generators:
                seed(global_seed)
            before = [state() for _, _, state, _ in generators]
            episodes.append(record(fresh_copy(env)))
            for (name, _, state, _), old in zip(generators, before, strict=True):
                if not same(state(), old):
                    fail(
                        f"it draws from, or seeds, {name}, which belongs to whoever uses the environment.",
                        f"Draw from self.np_random instead. {_OWN}",
                    )
    finally:
        for (_, _, _, restore), old in zip(generators, saved, strict=True):
            restore(old)
    for number, (mine, its) in enumerate(zip(*episodes, strict=False)):
        if mine != its:
            fail(
                f"its episodes depend on the global random state, although reset got a seed; at step {number}: "
                f"{difference(mine, its)}.",
                f"Draw from self.np_random instead. {_OWN}",
            )


_Generator = tuple[str, Callable[[int], Any], Callable[[], Any], Callable[[Any], Any]]


def _generators() -> list[_Generator]:
    """(name, seed it, its state, restore a state) of every global generator that there is."""
    found: list[_Generator] = [
        ("Python's global `random`", random.seed, random.getstate, random.setstate),
        ("NumPy's global generator (np.random.*)", np.random.seed, np.random.get_state, np.random.set_state),
    ]
    if (torch := sys.modules.get("torch")) is not None:  # an environment that uses it has imported it
        found.append(
            (
                "PyTorch's global generator",
                torch.manual_seed,
                lambda: torch.get_rng_state().numpy().copy(),
                lambda state: torch.set_rng_state(torch.from_numpy(state)),
            )
        )
    return found

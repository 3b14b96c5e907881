"""PettingZoo's own tests: a net under the rules of ours, which say the same in plainer words."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper

from ..spaces import TextObservation
from .findings import RuleBroken, described
from .playing import MAX_STEPS, fresh_copy


def check_parallel_api(env: ParallelEnv) -> None:
    """PettingZoo's ``parallel_api_test``."""
    from pettingzoo.test import parallel_api_test  # here, since it imports pytest where that is installed

    # On a copy, since it sets `max_cycles`.
    _run("parallel_api_test", lambda: parallel_api_test(fresh_copy(env), num_cycles=MAX_STEPS))


def check_aec(env: ParallelEnv) -> None:
    """PettingZoo's ``api_test`` through ``parallel_to_aec``."""
    from pettingzoo.test import api_test

    copy_: ParallelEnv = WithDtype(fresh_copy(env))
    _run("api_test (through parallel_to_aec)", lambda: api_test(parallel_to_aec(copy_), num_cycles=MAX_STEPS))


def check_state_api(env: ParallelEnv) -> None:
    """PettingZoo's ``state_test``."""
    from pettingzoo.test.state_test import state_test

    _run("state_test", lambda: state_test(parallel_to_aec(fresh_copy(env)), fresh_copy(env), num_cycles=MAX_STEPS))


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


def _run(name: str, test: Callable[[], Any]) -> None:
    """Run a test of PettingZoo, whose warnings are about arrays and whose failures are assertions."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            test()
    except Exception as error:  # noqa: BLE001 -- whatever the environment raises inside PettingZoo's test is its failure
        raise RuleBroken(
            f"PettingZoo's {name} failed: {described(error)}.",
            f"Call it yourself to see where: from pettingzoo.test import {name.partition(' ')[0]}.",
        ) from error

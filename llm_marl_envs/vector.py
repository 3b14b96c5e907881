"""Many copies of a parallel environment, stepped together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from pettingzoo import ParallelEnv

from .arguments import at_least
from .env import CollaborationEnv
from .errors import ConfigError

StepResult = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


def step_together(
    envs: Sequence[ParallelEnv], actions: Sequence[Mapping[str, Any]], executor: Executor | None = None
) -> list[StepResult]:
    """Step each environment with its actions; result[i] is what ``envs[i].step(actions[i])`` returns.

    With an ``executor``, environments of ours are stepped concurrently, since they touch no global state and a score
    may wait for another process. Others are stepped one after another, in order.

    An exception of one step is raised after all of them have ended.
    """
    if executor is None or not all(isinstance(env.unwrapped, CollaborationEnv) for env in envs):
        return [env.step(dict(action)) for env, action in zip(envs, actions, strict=True)]
    futures = [executor.submit(env.step, dict(action)) for env, action in zip(envs, actions, strict=True)]
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
    return [future.result() for future in futures]


class ParallelVectorEnv:
    """``num_envs`` copies of one parallel environment. Scores run concurrently.

    Copies end their episodes on their own. An ended copy stays ended, and takes no part in ``step``, until it is
    ``reset``: nothing is restarted behind the caller's back, and no observation is lost.

    Args:
        make_env: builds one copy; called ``num_envs`` times.
        num_envs: number of copies, at least 1.
        workers: threads that score; by default one a copy, at most 8.
    """

    def __init__(self, make_env: Callable[[], ParallelEnv], num_envs: int, *, workers: int | None = None):
        at_least("num_envs", num_envs, 1)
        self.envs = [make_env() for _ in range(num_envs)]
        self._executor = ThreadPoolExecutor(workers or min(num_envs, 8), thread_name_prefix="score")

    @property
    def num_envs(self) -> int:
        return len(self.envs)

    @property
    def possible_agents(self) -> list[str]:
        return self.envs[0].possible_agents

    @property
    def running(self) -> list[int]:
        """Indices of the copies whose episode goes on."""
        return [i for i, env in enumerate(self.envs) if env.agents]

    def observation_space(self, agent: str) -> Any:
        return self.envs[0].observation_space(agent)

    def action_space(self, agent: str) -> Any:
        return self.envs[0].action_space(agent)

    def reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        options: Sequence[dict[str, Any] | None] | dict[str, Any] | None = None,
        *,
        indices: Sequence[int] | None = None,
    ) -> tuple[list[dict[str, Any]], list[dict[str, dict[str, Any]]]]:
        """Start an episode in each copy, or in those of ``indices``.

        Args:
            seed: one per copy that is reset; or a single number s, which gives copy i the seed s + i.
            options: one for all, or one per copy that is reset.

        Returns:
            Observations and infos, one dict per copy that was reset, in the order of ``indices``.
        """
        chosen = list(range(self.num_envs)) if indices is None else list(indices)
        seeds = [seed + i for i in chosen] if isinstance(seed, int) else self._each(seed, chosen, "seed")
        each = [options] * len(chosen) if isinstance(options, dict) else self._each(options, chosen, "options")
        results = [self.envs[i].reset(seed=s, options=o) for i, s, o in zip(chosen, seeds, each, strict=True)]
        return [obs for obs, _ in results], [info for _, info in results]

    def step(self, actions: Sequence[Mapping[str, Any] | None]) -> tuple[list[Any], ...]:
        """Step every running copy.

        Args:
            actions: one dict per copy; None (or an empty dict) for a copy whose episode has ended.

        Returns:
            Five lists (observations, rewards, terminations, truncations, infos), one dict per copy; those of copies
            that had ended are empty.
        """
        if len(actions) != self.num_envs:
            raise ConfigError(
                f"step() takes {self.num_envs} actions, one per copy (None where ended), not {len(actions)}."
            )
        running = self.running
        for i, action in enumerate(actions):
            if action and i not in running:
                raise ConfigError(f"Copy {i} has ended its episode: pass None for it, or reset(indices=[{i}]).")
        stepped = step_together([self.envs[i] for i in running], [actions[i] or {} for i in running], self._executor)
        results: list[tuple[dict[str, Any], ...]] = [({}, {}, {}, {}, {})] * self.num_envs
        for i, result in zip(running, stepped, strict=True):
            results[i] = result
        return tuple([dict(r[k]) for r in results] for k in range(5))

    def close(self) -> None:
        self._executor.shutdown()
        for env in self.envs:
            env.close()

    @staticmethod
    def _each(values: Any, chosen: list[int], name: str) -> list[Any]:
        if values is None:
            return [None] * len(chosen)
        if len(values) != len(chosen):
            raise ConfigError(f"reset() got {len(values)} values of {name} for {len(chosen)} copies.")
        return list(values)

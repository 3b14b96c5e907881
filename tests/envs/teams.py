"""Environments that the wrappers are tested on: a task for three, and what a third party might write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from llm_marl_envs import CollaborationEnv, Score, Task, load_rows

ROWS = [{"id": f"r{i}", "text": f"text {i}"} for i in range(4)]


class TeamTask(Task[Mapping[str, Any]]):
    """One point for each agent whose response holds its own name."""

    name = "toy/team"
    agents = ("ann", "ben", "cat")
    max_terms = {"named": 3.0}
    fields = ("text",)

    def prompt(self, row: Mapping[str, Any], agent: str) -> str:
        return f"{agent}: {row['text']}"

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        parts = {a: float(a in responses[a]) for a in self.agents}
        return Score.of({"named": sum(parts.values())}, per_agent=parts)


def team(**kwargs: Any) -> CollaborationEnv:
    return CollaborationEnv(TeamTask(), load_rows(ROWS), **kwargs)


class Outside(ParallelEnv):
    """No clone, no state, no np_random, narrow spaces of letters, rewards of each agent's own; and in each turn it asks
    those of ``asks``, for which it pays the length of their answers. ``leaver`` leaves after the first turn."""

    metadata = {"name": "outside"}
    render_mode = None
    LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 "

    def __init__(self, asks: Sequence[Sequence[str]] = (("x", "y"), ("x", "y")), leaver: str | None = None):
        self.possible_agents = ["x", "y"]
        self.asks, self.leaver = asks, leaver
        self.log: list[dict[str, str]] = []
        self._spaces = {
            a: (Text(60, charset=self.LETTERS), Text(5, min_length=1, charset="abc")) for a in self.possible_agents
        }

    def observation_space(self, agent):
        return self._spaces[agent][0]

    def action_space(self, agent):
        return self._spaces[agent][1]

    def _infos(self):
        asked = self.asks[len(self.log)] if len(self.log) < len(self.asks) else ()
        return {a: {"acts": int(a in asked)} for a in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self.seed, self.log = list(self.possible_agents), seed, []
        return {a: f"start {seed}" for a in self.agents}, self._infos()

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(self.action_space(a).contains(t) for a, t in actions.items()), actions
        asked, agents = self.asks[len(self.log)], self.agents
        self.log.append({a: actions[a] for a in agents if a in asked})
        over = len(self.log) == len(self.asks)
        seen = {a: f"seed {self.seed} turn {len(self.log)}" for a in agents}
        rewards = {a: float(len(actions[a])) if a in asked else 0.0 for a in agents}
        ended = {a: over or a == self.leaver for a in agents}
        self.agents = [a for a in agents if not ended[a]]
        infos = {a: self._infos().get(a, {}) for a in agents}
        return seen, rewards, ended, dict.fromkeys(agents, False), infos


def play(env: ParallelEnv, write: Any, **reset: Any) -> list[Any]:
    """An episode: what reset returned and every step. ``write(agent, observation)`` answers for those who are asked;
    the others hand in nothing."""
    observations, infos = env.reset(**reset)
    seen: list[Any] = [(observations, infos)]
    while env.agents:
        asked = [a for a in env.agents if infos.get(a, {}).get("acts", 1)]
        seen.append(env.step({a: write(a, observations[a]) for a in asked}))
        observations, *_, infos = seen[-1]
    return seen


def asked(episode: Sequence[Any]) -> list[list[str]]:
    """Who is asked: at reset and after each step."""
    return [[a for a, info in result[-1].items() if info["acts"]] for result in episode]

"""Toy text games with a known optimum, for authors of algorithms.

An answer is ONE symbol out of ``A B C D``, and the action space holds texts of at most one character. Any other
character, or none, is a wrong answer, not an error. A policy that is right wins in seconds, and one that is subtly
wrong cannot.

| id                  | what earns the reward                                        | optimum | random |
|---------------------|--------------------------------------------------------------|---------|--------|
| `probe/own-word-v0` | each agent answers a fixed symbol of its own                 | 1       | 1/4    |
| `probe/same-word-v0`| all agents answer the same symbol, without talking           | 1       | 1/4^(N-1) |
| `probe/two-turn-v0` | own symbols on both turns; only the second turn pays, and it | 1       | 1/16   |
|                     | pays the product of both turns' shares of right answers      |         |        |

*Random* is the expected return of agents that pick each of the four symbols with probability 1/4. ``two-turn`` pays
nothing for the first turn, so with gamma = 0 the first answers stay random, and the best return
that is left is 1/4 of the optimum. There is one data row, so every seed gives the same first observations.

The rules are not in the prompts: they are what a policy has to find out. ``optimal_return`` and ``random_return`` of
``env.task`` give the scale on which 0 is random and 1 is optimal.

Version history: v0, first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .datasets import load_rows
from .env import CollaborationEnv
from .errors import ConfigError
from .task import Score, Task, Transcript

SYMBOLS = "ABCD"
RIGHT = "right"


def own_symbol(position: int, turn: int) -> str:
    """The symbol that the agent at ``position`` must answer at ``turn`` (both from 0): B D C A D ..., one further
    each turn, so that what is right on one turn is wrong on the next."""
    return SYMBOLS[(1 + 2 * position + (2 * position) // len(SYMBOLS) + turn) % len(SYMBOLS)]


class ProbeTask(Task[Mapping[str, Any]]):
    """Base of the probes: agents ``agent_1`` to ``agent_N``, one row, one term."""

    max_terms = {RIGHT: 1.0}
    max_response_length = 1
    optimal_return = 1.0
    random_return = 1 / len(SYMBOLS)
    turns = 1

    def __init__(self, num_agents: int = 2):
        if not isinstance(num_agents, int) or not 1 <= num_agents <= 16:
            raise ConfigError(f"num_agents must be a whole number from 1 to 16, not {num_agents!r}.")
        self.agents = tuple(f"agent_{i}" for i in range(1, num_agents + 1))

    def prompt(self, row: Mapping[str, Any], agent: str) -> str:
        number = self.agents.index(agent) + 1
        return f"You are agent {number} of {len(self.agents)}. Turn 1 of {self.turns}. Answer with one of: A B C D."

    def _share(self, responses: Mapping[str, str], turn: int) -> dict[str, float]:
        """For each agent 1.0 if it answered its own symbol, else 0.0."""
        return {a: float(responses[a] == own_symbol(i, turn)) for i, a in enumerate(self.agents)}


class OwnWordTask(ProbeTask):
    """Joint score: the share of agents that answered their own symbol. Each agent's part: its own share of that."""

    name = "probe/own-word"

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        right = self._share(responses, turn=0)
        parts = {a: r / len(self.agents) for a, r in right.items()}
        return Score.of({RIGHT: sum(right.values()) / len(right)}, per_agent=parts)


class SameWordTask(ProbeTask):
    """Score 1 if all agents answered the same one of the symbols, else 0."""

    name = "probe/same-word"

    def __init__(self, num_agents: int = 2):
        super().__init__(num_agents)
        self.random_return = float(len(SYMBOLS) ** (1 - num_agents))

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        answers = {responses[a] for a in self.agents}
        same = len(answers) == 1 and answers <= set(SYMBOLS)
        parts = {a: float(same) / len(self.agents) for a in self.agents}
        return Score.of({RIGHT: float(same)}, per_agent=parts)


class TwoTurnTask(ProbeTask):
    """The first turn pays 0; the second pays (share right on turn 1) x (share right on turn 2)."""

    name = "probe/two-turn"
    random_return = 1 / len(SYMBOLS) ** 2
    turns = 2

    def score_turn(self, row: Mapping[str, Any], turns: Transcript, responses: Mapping[str, str]) -> Score:
        total = 0.0
        if turns:
            first = self._share(turns[0].actions, turn=0)
            second = self._share(responses, turn=1)
            total = sum(first.values()) * sum(second.values()) / len(self.agents) ** 2
        parts = {a: total / len(self.agents) for a in self.agents}
        return Score.of({RIGHT: total}, per_agent=parts)


def next_turn(row: Mapping[str, Any], transcript: Transcript, score: Score, agent: str) -> str:
    """Feedback of ``two-turn``: only that the second turn has come."""
    return "Turn 2 of 2. Answer with one of: A B C D."


def _build(task: ProbeTask, kwargs: dict[str, Any]) -> CollaborationEnv:
    return CollaborationEnv(task, load_rows([{"id": task.name}]), **kwargs)


def own_word(num_agents: int = 2, **kwargs: Any) -> CollaborationEnv:
    """Each agent must answer a fixed symbol of its own."""
    return _build(OwnWordTask(num_agents), kwargs)


def same_word(num_agents: int = 2, **kwargs: Any) -> CollaborationEnv:
    """All agents must answer the same symbol; they cannot talk."""
    return _build(SameWordTask(num_agents), kwargs)


def two_turn(num_agents: int = 2, **kwargs: Any) -> CollaborationEnv:
    """Only the second turn pays, and what it pays depends on the first turn's answers."""
    if kwargs.get("num_turns", 2) != 2:
        raise ConfigError(f"probe/two-turn has exactly 2 turns, not num_turns={kwargs['num_turns']!r}.")
    return _build(TwoTurnTask(num_agents), {"feedback": next_turn, "num_turns": 2, **kwargs})

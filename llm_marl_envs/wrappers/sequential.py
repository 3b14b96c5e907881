"""``Sequential``: agents answer one after another, and later ones see what earlier ones wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pettingzoo import ParallelEnv

from ..errors import ConfigError
from ..spaces import TextObservation
from ..tables import did_you_mean
from .base import HEADING, Infos, ProtocolWrapper, StepResult, joined


class Sequential(ProtocolWrapper):
    """One turn of the environment takes one step for each agent that it asks.

    In each step one agent is asked (``infos[agent]["acts"]`` is 1 for it and 0 for the others, at reset too); what the
    others hand in is ignored and may be left out. It sees the environment's observation and below it the responses
    given so far in this turn, each under the name of its author. The first agent of a turn sees the plain observation.
    While an agent waits it is told only whose turn it is: the environment's observation reaches it when it is asked.
    The last one's step is the environment's step, with all responses of the turn; it earns that step's rewards. The
    steps before it earn 0 and have ``terms == {}`` and no ``score``. The next turn begins with the first agent again.

    An agent that the environment itself does not ask (``acts`` 0) is left out of the turn; where it asks nobody, the
    turn is one step in which nobody is asked.

    A discount is applied for every step, so here for every response: with N agents and gamma < 1, a reward at the end
    of the first turn counts gamma^(N-1) for the first agent's response. Use gamma = 1, or the N-th root of the gamma
    that a turn shall have.

    This is the sequential pipeline of arXiv 2508.04652, section 5, which compares it untrained.

    Args:
        env: a ``ParallelEnv`` whose observations and actions are text.
        order: all agents, each once, in the order in which they answer; by default that of ``possible_agents``.

    Raises:
        ConfigError: ``order`` is not a permutation of the agents, or a space is not text.
    """

    protocol = "sequential"

    def __init__(self, env: ParallelEnv, order: Sequence[str] | None = None):
        super().__init__(env)
        agents = list(env.possible_agents)
        self.order = tuple(agents if order is None else _checked_order(order, agents))
        lengths = self._lengths()
        self._make_room(dict.fromkeys(agents, sum(lengths.values()) + HEADING), sum(lengths.values()))
        self._written: dict[str, str] = {}  # responses of this turn

    @property
    def max_acting(self) -> int:
        return 1

    @property
    def steps_per_turn(self) -> int:
        return len(self.order)

    def step(self, actions: Mapping[str, str]) -> StepResult:
        """Take the response of the agent whose turn it is; with the last one's, step the environment.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: an unknown agent; or the one that is asked has no action, or one outside its space.
                Nothing has changed then.
        """
        acting = self._acting
        wrote = self._check(actions, self._live, acting)
        written = {**self._written, **wrote}
        if len(written) < len(self._asked):
            for agent, words in wrote.items():
                self._note(agent, *self._heard())
                self._said = (*self._said, f"[turn {self._turn}, {agent} writes]\n{words}")
                self._show(f"turn {self._turn}, {agent} writes", words)
            self._written = written
            return self._between(dict.fromkeys(self._live, 0.0), {a: {"terms": {}} for a in self._live})
        results = self.env.step(self._actions(written))
        for agent in wrote:
            self._note(agent, *self._heard())
        return self._turned(*results)

    def clone(self, seed: int | None = None) -> Sequential:
        """An independent copy at the same point, inside a turn too.

        Raises:
            CloneUnsupportedError: the environment inside has no ``clone`` of its own.
        """
        return self._copy(seed)

    # -- parts --------------------------------------------------------------------------------------------------

    def _begin(self, observations: Mapping[str, Any], infos: Infos) -> None:
        super()._begin(observations, infos)
        self._asked = tuple(sorted(self._asked, key=self.order.index))
        self._written, self._said = {}, ()

    @property
    def _acting(self) -> tuple[str, ...]:
        """Whose turn it is: one agent, or none in a turn in which the environment asks nobody."""
        return self._asked[len(self._written) :][:1]

    def _heard(self) -> list[str]:
        """The responses given so far in this turn, as a later agent reads them."""
        return [f"The response of {a} (turn {self._turn}):\n{words}" for a, words in self._written.items()]

    def _observation(self, agent: str) -> TextObservation:
        if agent in self._acting:
            added = self._heard()
            if added:
                added.append(f"{joined(self._written)} answered before you. Now give your own response.")
            return self._text(agent, self._shown[agent], *self._notes.get(agent, ()), *added)
        if agent not in self._asked and not self._written:
            return self._text(agent, self._shown[agent])  # not asked in this turn, and told so by nobody else
        if agent in self._written:
            return self._text(agent, f"You have answered. {joined(self._acting)} answers now.")
        return self._text(agent, f"Wait: {joined(self._acting)} answers now.")


def _checked_order(order: Sequence[str], agents: Sequence[str]) -> list[str]:
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise ConfigError(f"order must be a list of the agents {list(agents)}, not {order!r}.")
    for agent in order:
        if agent not in agents:
            hint = did_you_mean(str(agent), agents)
            raise ConfigError(f"order names an unknown agent {agent!r}.{hint} The agents are {list(agents)}.")
        if list(order).count(agent) > 1:
            raise ConfigError(f"order names {agent!r} {list(order).count(agent)} times. Name each agent once.")
    if missing := [a for a in agents if a not in order]:
        raise ConfigError(f"order lacks {joined(map(repr, missing))}. Name each of the agents {list(agents)} once.")
    return list(order)

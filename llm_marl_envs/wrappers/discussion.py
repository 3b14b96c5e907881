"""``Discussion``: agents exchange messages, then answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from ..arguments import at_least
from ..errors import ConfigError
from ..spaces import TextObservation
from .base import HEADING, Infos, ProtocolWrapper, StepResult, joined
from .topology import Topology, hearing

MESSAGE_COST = "message_cost"


class Discussion(ProtocolWrapper):
    """Before every turn of the environment there are ``rounds`` steps of messages; then comes the step to answer.

    In a message step every agent that the environment asks, and that somebody hears, is asked for a message, all at
    once: its observation says who will read it. Messages are texts of the agent's action space. They are delivered when
    a round is over: whoever hears the author finds them in its next observation in which it is asked, each under the
    name of its author. One round is the one-round discussion of arXiv 2508.04652, section 5: each sees the other's
    draft, then answers.

    ``infos[agent]["acts"]`` is 1 for those who are asked. Who is not (nobody hears it, or the environment does not ask
    it in this turn) waits; what it hands in is ignored and may be left out. Where nobody is to write, a turn has no
    message steps. A message step earns 0 or costs (below); it has no ``score``, and ``infos[agent]["message_words"]``.

    **What words cost.** A message of n words (separated by whitespace) costs n x ``message_cost`` in the step in which
    it is sent, as the term ``message_cost`` (at most 0), which is all that the step earns. Where the environment pays
    one joint reward, all agents pay for all words of the step, so that the reward stays joint; where its
    ``reward_mode`` is ``"individual"``, each pays for its own. An environment without a ``reward_mode`` counts as
    joint. ``score`` in the infos of the answers stays the environment's own, without costs, so that protocols can be
    compared; the return has them. A word is what stands between blanks, so a model can learn to
    write_without_blanks: read some messages before you believe a cost.

    A discount is applied for every step: a turn takes rounds + 1 of them, so that a reward at the end of the first turn
    counts gamma^rounds for the first message. Use gamma = 1, or the (rounds + 1)-th root of the gamma of a turn.

    Args:
        env: a ``ParallelEnv`` whose observations and actions are text.
        rounds: message steps before every turn, at least 1.
        topology: ``"all"``, ``"ring"``, ``"star"``, or for each agent the list of agents that it hears;
            see :func:`~llm_marl_envs.wrappers.topology.hearing`.
        message_cost: reward that a word costs, at least 0.
        hub: the middle of the star; by default the first agent.

    Raises:
        ConfigError: an argument is out of range, the topology does not fit the agents, or a space is not text.
    """

    protocol = "discussion"

    def __init__(
        self,
        env: ParallelEnv,
        rounds: int = 1,
        topology: Topology = "all",
        message_cost: float = 0.0,
        hub: str | None = None,
    ):
        at_least("rounds", rounds, 1)
        if (
            not isinstance(message_cost, (int, float))
            or isinstance(message_cost, bool)
            or not 0 <= message_cost < math.inf
        ):
            raise ConfigError(f"message_cost must be a finite number of at least 0, not {message_cost!r}.")
        super().__init__(env)
        agents = list(env.possible_agents)
        self.hears = hearing(topology, agents, hub)
        self.rounds = rounds
        self.message_cost = float(message_cost)
        lengths = self._lengths()
        # One that is asked in the last step only finds the messages of all rounds there.
        room = {
            a: rounds * sum(lengths[b] for b in self.hears[a]) + sum(map(len, agents)) + 3 * HEADING for a in agents
        }
        self._make_room(room, getattr(env, "num_turns", 1) * rounds * sum(lengths.values()))
        self._talk = False  # whether this turn has message steps
        self._round = 0  # message rounds that are over in this turn
        self._fresh: frozenset[str] = frozenset()  # who has not been shown the environment's observation of this turn
        self._unread: dict[str, tuple[str, ...]] = {}

    @property
    def steps_per_turn(self) -> int:
        return self.rounds + 1

    def step(self, actions: Mapping[str, str]) -> StepResult:
        """Deliver the messages of a round; or, after the last round, step the environment with the answers.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: an unknown agent; or one that is asked has no action, or one outside its space. Nothing
                has changed then.
        """
        live, acting = self._live, self._acting
        wrote = self._check(actions, live, acting)
        if self._round == self.rounds:
            results = self.env.step(self._actions(wrote))
            self._have_read(acting)
            return self._turned(*results)
        self._have_read(acting)
        self._round += 1
        where = f"turn {self._turn}, round {self._round}"
        for agent, words in wrote.items():
            self._note(agent, f"Your message ({where}):\n{words}")
            self._said = (*self._said, f"[{where}, {agent} writes]\n{words}")
            self._show(f"{where}, {agent} writes", words)
        for agent in live:
            heard = [f"The message of {a} ({where}):\n{wrote[a]}" for a in self.hears[agent] if a in wrote]
            self._unread = {**self._unread, agent: (*self._unread.get(agent, ()), *heard)}
        return self._charged(wrote)

    def clone(self, seed: int | None = None) -> Discussion:
        """An independent copy at the same point, between two rounds too.

        Raises:
            CloneUnsupportedError: the environment inside has no ``clone`` of its own.
        """
        return self._copy(seed)

    # -- parts --------------------------------------------------------------------------------------------------

    def _begin(self, observations: Mapping[str, Any], infos: Infos) -> None:
        super()._begin(observations, infos)
        if self._turn == 1:
            self._unread = {}
        self._fresh = frozenset(self._asked)
        self._talk = any(map(self._readers, self._asked))
        self._round = 0 if self._talk else self.rounds

    @property
    def _acting(self) -> tuple[str, ...]:
        """In a message step only those whose message somebody will read."""
        return self._asked if self._round == self.rounds else tuple(a for a in self._asked if self._readers(a))

    def _readers(self, agent: str) -> list[str]:
        return [a for a in self._live if agent in self.hears[a]]

    def _have_read(self, agents: tuple[str, ...]) -> None:
        """These agents were asked, so they have seen what was new to them."""
        for agent in agents:
            self._note(agent, *self._unread.get(agent, ()))
        self._unread = {a: texts for a, texts in self._unread.items() if a not in agents}
        self._fresh -= set(agents)

    def _charged(self, wrote: Mapping[str, str]) -> StepResult:
        """What a message step returns."""
        words = {a: len(wrote.get(a, "").split()) for a in self._live}
        own = getattr(self, "reward_mode", "joint") == "individual"
        costs = {a: 0.0 - self.message_cost * (n if own else sum(words.values())) for a, n in words.items()}
        infos: dict[str, dict[str, Any]] = {
            a: {"terms": {MESSAGE_COST: costs[a]} if self.message_cost else {}, "message_words": n}
            for a, n in words.items()
        }
        return self._between(costs, infos)

    def _observation(self, agent: str) -> TextObservation:
        unread = self._unread.get(agent, ())
        if agent in self._acting:
            request = self._request(agent) if self._round < self.rounds else "Now give your answer." * self._talk
            first = agent in self._fresh or self.metadata.get("history") == "full"
            return self._text(agent, self._shown[agent] if first else "", *self._notes.get(agent, ()), *unread, request)
        if agent not in self._asked and self._round == (0 if self._talk else self.rounds):
            return self._text(agent, self._shown[agent])
        doing = "writing messages" if self._round < self.rounds else "answering"
        return self._text(agent, f"Wait: the others are {doing}.")

    def _request(self, agent: str) -> str:
        readers = self._readers(agent)
        number = f" (round {self._round + 1} of {self.rounds})" if self.rounds > 1 else ""
        cost = f" Every word of it costs {self.message_cost:g} of the reward." if self.message_cost else ""
        return (
            f"Do not answer yet. First write a message{number}. {joined(readers)} will read it before you all answer. "
            f"It can be a draft of your answer, a plan or a question.{cost} Write only the message."
        )

"""Our environments as games of TextArena: what ``textarena.to_textarena`` returns.

Import :mod:`.textarena` and call that; this module imports TextArena at once.
"""

from __future__ import annotations

from typing import Any

from pettingzoo import ParallelEnv
from textarena import Env, ObservationType, State

from ..errors import ConfigError, InvalidActionError, ResetNeededError
from ..spaces import nearest, shortest
from .common import asked_agents, require_text


class ExportedEnv(Env):
    """A parallel text environment that TextArena's agents, wrappers and loops play.

    Player i is ``possible_agents[i]``, and has its name in ``state.role_mapping``. Within a turn the players answer one
    after another, in that order, and none sees what another one writes before all have answered: the environment is
    stepped with the last response. A player that the environment does not ask (``infos[agent]["acts"] == 0``) is left
    out of the turn.

    An observation is a list of messages ``(sender, text, type)``, as in every game of TextArena: the prompt first, then
    what the player itself wrote and what the environment tells it. ``LLMObservationWrapper`` makes one text of all of
    it, so let the environment have ``history="none"``.

    A response is fitted to the player's action space (cut off at its limit): whatever a model writes is data.
    ``close()`` gives each player the sum of its rewards. ``game_info[player]`` holds ``role`` (the agent's name),
    ``turn_count``, ``invalid_move`` (always False), ``reason`` and, if the environment reports them, ``terms`` of the
    last turn.

    Args:
        env: a ``ParallelEnv`` whose observations and actions are text.

    Raises:
        ConfigError: it is not.
    """

    def __init__(self, env: ParallelEnv):
        require_text(env, "to_textarena")
        self.env_inside = env
        self.agents = list(env.possible_agents)
        self.state: Any = None  # a `State` of TextArena from the first reset on
        self._asked: list[str] = []  # in this turn
        self._written: dict[str, str] = {}  # in this turn
        self._returns: dict[str, float] = {}

    def reset(self, num_players: int | None = None, seed: int | None = None) -> None:
        """Start an episode.

        Args:
            num_players: the number of agents, or None.
            seed: of the environment's ``reset``. The global random generators are left alone.

        Raises:
            ConfigError: another number of players.
        """
        if num_players not in (None, len(self.agents)):
            number = len(self.agents)
            raise ConfigError(
                f"num_players must be {number}, not {num_players!r}: {self.env_inside} has {number} agents."
            )
        observations, infos = self.env_inside.reset(seed=seed)
        self.state = State(num_players=len(self.agents))  # with a seed, it would seed the global generator
        self.state.standard_resets(game_state={}, role_mapping=dict(enumerate(self.agents)))
        for number, agent in enumerate(self.agents):
            self.state.game_info[number]["role"] = agent
        self._returns = dict.fromkeys(self.agents, 0.0)
        self._tell(observations, ObservationType.PROMPT)
        if not self._next_turn(infos):
            self._turn()

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Take the response of the current player; with the last one of a turn, step the environment.

        Returns:
            Whether the episode is over; and what the environment says in the infos of the first agent, after its step.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: the action is no text.
        """
        if self.state is None or self.state.done:
            raise ResetNeededError("step() needs an episode: it has not begun, or has ended; call reset() first.")
        agent = self.agents[self.state.current_player_id]
        if not isinstance(action, str):
            raise InvalidActionError(f"The action of player {agent!r} must be a text, not {type(action).__name__}.")
        self._written[agent] = nearest(self.env_inside.action_space(agent), action)
        number = self.state.current_player_id
        self.state.observations[number].append((number, self._written[agent], ObservationType.PLAYER_ACTION))
        self.state.logs.append((number, self._written[agent]))
        self.state.game_info[number]["turn_count"] += 1
        waiting = [a for a in self._asked if a not in self._written]
        if waiting:
            self.state.current_player_id = self.agents.index(waiting[0])
            return False, {}
        said = self._turn()
        return self.state.done, said

    # -- parts --------------------------------------------------------------------------------------------------

    def _turn(self) -> dict[str, Any]:
        """Step the environment with what was written; and on, as long as it asks nobody."""
        while True:
            inside = self.env_inside
            actions = {a: self._written.get(a, shortest(inside.action_space(a))) for a in inside.agents}
            observations, rewards, _, truncations, infos = inside.step(actions)
            for agent, reward in rewards.items():
                self._returns[agent] += float(reward)
            self._tell(observations, ObservationType.GAME_MESSAGE)
            self.state.turn += 1
            if not inside.agents:
                self._end(infos, any(truncations.values()))
                break
            if self._next_turn(infos):
                break
        return dict(next(iter(infos.values()), {}))

    def _next_turn(self, infos: Any) -> bool:
        """Whether anybody is asked now."""
        self._asked, self._written = asked_agents(self.env_inside, infos), {}
        if self._asked:
            self.state.current_player_id = self.agents.index(self._asked[0])
        return bool(self._asked)

    def _tell(self, observations: Any, kind: ObservationType) -> None:
        for agent, told in observations.items():
            self.state.add_observation(to_id=self.agents.index(agent), message=str(told), observation_type=kind)

    def _end(self, infos: Any, cut: bool) -> None:
        self.state.rewards = {i: self._returns[a] for i, a in enumerate(self.agents)}
        for number, agent in enumerate(self.agents):
            said: dict[str, Any] = {"reason": "The episode was cut off." if cut else "The episode is over."}
            if "terms" in infos.get(agent, {}):
                said["terms"] = dict(infos[agent]["terms"])
            self.state.game_info[number] |= said
        self.state.done = True

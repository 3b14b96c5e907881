"""TextArena: its games as parallel text environments, and our environments as games of its.

``parallel_env("TicTacToe-v0")`` plays a game of TextArena through PettingZoo's API; on the command line it is
``--env llm_marl_envs.integrations.textarena:textarena/game-v0 --env_args '{game: TicTacToe-v0}'``.
``to_textarena(env)`` is the way back. TextArena is imported when the first game is built.

| property    | value                                                                                               |
|-------------|-----------------------------------------------------------------------------------------------------|
| agents      | `player_0`, `player_1` ...; one is asked at a time (`infos[agent]["acts"]`), in the game's order     |
| observation | when asked: what reached the player since it was asked last; while it waits: who moves               |
| action      | the response, as one of TextArena's agents gives it                                                 |
| reward      | what the game's `close()` pays each player, on the last move; 0 before. In most games it sums to 0   |
| end         | the game ends (termination), or `num_turns` moves are over (truncation, which pays 0)                |

A move that the rules forbid is data: the game tells the player, asks it once more, and then lets it lose.

TextArena seeds, and draws from, the global generators of ``random`` and NumPy. Each game here has states of its own,
which take the place of the global ones during a call, so that nothing outside it changes. The one thing to avoid is
another thread that uses those generators at that moment.

Version history: v0, first version.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import logger
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from .. import text
from ..arguments import at_least, check_joint_action, need_episode, one_of
from ..env import EPISODE_OVER, MAX_TEXT_LENGTH
from ..errors import CloneUnsupportedError, InvalidActionError, ResetNeededError
from ..registry import register
from ..spaces import TextObservation, UnicodeText
from . import textarena_games as games
from .textarena_games import Randomness

if TYPE_CHECKING:
    from .textarena_export import ExportedEnv

MAX_STATE_LENGTH = 1_048_576

Move = tuple[str, str, str]  # player, observation, response


class TextArenaGame(ParallelEnv[str, TextObservation, str]):
    """A game of TextArena as a ``ParallelEnv``.

    Args:
        game: an id of TextArena's registry, or ``"package.module:id"`` to import the module that registers it first.
        num_players: how many play, at least 1. The game says which numbers it allows.
        num_turns: the most moves of an episode, all players' together; None: as many as the game takes.
        history: ``"none"``: an observation is what is new, for agents that remember. A player's own responses, which
            it remembers, are left out. ``"full"``: it is what the game's wrappers show to TextArena's own agents,
            which do not remember: for most ids the whole log, for those on ``-train`` the prompt, messages and newest
            board.
        game_kwargs: keyword arguments of the game itself, such as ``{"max_turns": 10}``.
        max_text_length: the longest action and observation in characters. A longer observation loses its middle.
        render_mode: None, ``"ansi"`` (``render()`` returns the transcript) or ``"human"`` (prints each move).

    ``infos[agent]`` has ``acts`` (0 or 1: whether the agent is asked next); after a step also ``turn`` (moves so far),
    ``terms`` and ``details``. On the last move ``terms`` holds every player's reward under its name, ``score`` is their
    mean, and ``details`` is what the game says of this player, such as ``reason``, ``invalid_move``, ``turn_count`` and
    ``role``; before it both dicts are empty, and there is no ``score``.

    Raises:
        ConfigError: an argument is out of range, or the game refuses ``num_players`` or ``game_kwargs``.
        UnknownNameError: no such game; the message offers the nearest.
        MissingDependencyError: TextArena, or data that the game needs, is not installed.
        GameError: the game cannot be built or started.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "ansi"], "name": "textarena", "is_parallelizable": True}
    max_acting = 1  # by which rollouts know their size

    def __init__(
        self,
        game: str,
        num_players: int = 2,
        *,
        num_turns: int | None = None,
        history: Literal["none", "full"] = "none",
        game_kwargs: Mapping[str, Any] | None = None,
        max_text_length: int = MAX_TEXT_LENGTH,
        render_mode: Literal["ansi", "human"] | None = None,
    ):
        at_least("num_players", num_players, 1)
        at_least("max_text_length", max_text_length, 256)
        one_of("history", history, ("none", "full"))
        one_of("render_mode", render_mode, (None, "ansi", "human"))
        if num_turns is not None:
            at_least("num_turns", num_turns, 1)
            self.num_turns = num_turns  # absent where no bound is known
        self.game_id = game
        self.history = history
        self.render_mode = render_mode
        self.max_text_length = max_text_length
        self.metadata = {**type(self).metadata, "name": f"textarena/{game}", "history": history}
        self.possible_agents = [f"player_{i}" for i in range(num_players)]
        self.agents: list[str] = []
        self.observation_spaces = {a: UnicodeText(max_text_length) for a in self.possible_agents}
        self.action_spaces = {a: UnicodeText(max_text_length) for a in self.possible_agents}
        self.state_space = UnicodeText(MAX_STATE_LENGTH)
        self.observations: dict[str, TextObservation] = {}
        self._game_kwargs = dict(game_kwargs or {})
        self._np_random: np.random.Generator | None = None
        self._asked: str | None = None
        self._log: dict[str, tuple[games.Message, ...]] = {}  # all that reached each player; for history="full"
        self._moves: tuple[Move, ...] = ()
        self._game: Any = None
        # Episodes are played on copies: games, and TextArena's wrappers, keep words and logs of the episode before.
        self._unplayed = games.build(game, self._game_kwargs)
        _, self._randomness = self._started(0)  # only here does the game say whether it can be played by so many

    def observation_space(self, agent: str) -> UnicodeText:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        return self.action_spaces[agent]

    @property
    def np_random(self) -> np.random.Generator:
        """Draws the seeds of episodes for which ``reset`` gets none."""
        if self._np_random is None:
            self._np_random, _ = seeding.np_random()
        return self._np_random

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, TextObservation], dict[str, dict[str, Any]]]:
        """Start a game.

        Args:
            seed: the same seed gives the same game for the same responses. TextArena gets it modulo 2**32.
            options: ignored.

        Raises:
            GameError: the game raised. The episode that was under way can be gone on with.
        """
        if seed is not None:
            self._np_random, _ = seeding.np_random(seed)
        self._game, self._randomness = self._started(int(self.np_random.integers(2**31)) if seed is None else seed)
        self.agents, self._moves, self._log = [], (), dict.fromkeys(self.possible_agents, ())
        self._ask()
        self.agents = list(self.possible_agents)
        self._render_if_human()
        return dict(self.observations), {a: {"acts": int(a == self._asked)} for a in self.agents}

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[
        dict[str, TextObservation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Hand the game the response of the player that is asked. What the others hand in is ignored.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: an unknown agent; or the one that is asked has no action, or one outside its space.
                Nothing has changed then.
            GameError: the game raised, or paid what is no number. The episode is over then.
        """
        player, response = self._checked(actions)
        agents, self.agents = self.agents, []  # if the game raises, nobody can tell what is left of it
        with self._randomness.in_place(), games.blamed(self.game_id, f"failed at {player}'s {response[:80]!r}"):
            done = bool(self._game.step(action=response)[0])
        self._moves = (*self._moves, (player, self.observations[player], response))
        cut = not done and len(self._moves) == getattr(self, "num_turns", None)
        rewards = dict.fromkeys(agents, 0.0)
        details: dict[str, dict[str, Any]] = {a: {} for a in agents}
        if done:
            with self._randomness.in_place():
                paid, told = games.outcome(self._game, self.game_id, len(agents))
            rewards, details = dict(zip(agents, paid, strict=True)), dict(zip(agents, told, strict=True))
        if done or cut:
            self._asked = None
            self.observations = {a: self._last_words(i) for i, a in enumerate(agents)}
        else:
            self._ask()
            self.agents = agents
        self._render_if_human()
        info: dict[str, Any] = {"turn": len(self._moves)}
        if not self.agents:  # a move before the last one has no score, as a step inside a turn of a protocol has none
            info["score"] = sum(rewards.values()) / len(rewards)
        infos = {
            a: {
                **info,
                "acts": int(a == self._asked),
                "terms": {} if self.agents else dict(rewards),
                "details": details[a],
            }
            for a in agents
        }
        return dict(self.observations), rewards, dict.fromkeys(agents, done), dict.fromkeys(agents, cut), infos

    def clone(self, seed: int | None = None) -> TextArenaGame:
        """An independent copy at the same point of the game.

        Args:
            seed: gives the copy fresh randomness; by default it continues with a copy of this one's.

        Raises:
            CloneUnsupportedError: the game holds what cannot be copied. A rollout replays it instead.
        """
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.agents, twin.observations = list(self.agents), dict(self.observations)
        # A space holds the random generator of its `sample`.
        for name in ("observation_spaces", "action_spaces", "state_space"):
            setattr(twin, name, copy.deepcopy(getattr(self, name)))
        twin._np_random = copy.deepcopy(self._np_random) if seed is None else seeding.np_random(seed)[0]
        twin._randomness = copy.copy(self._randomness) if seed is None else Randomness(seed)
        try:
            twin._game = games.duplicate(self._game)
        except TypeError as error:
            raise CloneUnsupportedError(f"{self} cannot be copied: {error}. Replay it from its seed.") from error
        return twin

    def state(self) -> TextObservation:
        """What the players were shown and wrote so far, move by move: all that a centralised critic may see."""
        if self._game is None:
            raise ResetNeededError("state() needs an episode: call reset() first.")
        return TextObservation(text.fit("\n\n".join(body for _, body in self._blocks()), MAX_STATE_LENGTH))

    def render(self) -> str | None:
        """The transcript so far as text (``"ansi"``), or what the last call added printed (``"human"``)."""
        if self.render_mode is None:
            logger.warn("render() does nothing without a render mode: make(..., render_mode='ansi') or 'human'.")
            return None
        blocks = self._blocks() or [(self.game_id, "No episode yet: call reset().")]
        if self.render_mode == "human":
            text.show(blocks[-2:])
            return None
        return text.join(blocks)

    def close(self) -> None:
        """Nothing to release."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.game_id} agents={self.possible_agents}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_unplayed": None, "_game": games.dumped([self._unplayed, self._game])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._unplayed, self._game = games.loaded(state["_game"])

    # -- parts --------------------------------------------------------------------------------------------------

    def _started(self, seed: int) -> tuple[Any, Randomness]:
        try:
            game = games.duplicate(self._unplayed)
        except TypeError:  # it holds what cannot be copied, such as a lock
            game = games.build(self.game_id, self._game_kwargs)
        return game, games.start(game, self.game_id, len(self.possible_agents), seed % 2**32)

    def _ask(self) -> None:
        """Find out whose turn it is, and what everyone sees."""
        with self._randomness.in_place(), games.blamed(self.game_id, "failed at an observation"):
            number, new = games.core(self._game).get_observation()
            player = self.possible_agents[number]
            if self.history == "none":
                shown = games.rendered(self._game, new, without=number)
            else:
                self._log = {**self._log, player: (*self._log[player], *new)}
                shown = games.whole_view(self._game, number, new, self._log[player])
        self._asked = player
        self.observations = {a: self._observation(f"Wait: {player} moves now.") for a in self.possible_agents}
        self.observations[player] = self._observation(shown)

    def _last_words(self, number: int) -> TextObservation:
        """What has not reached a player yet when the game is over."""
        unread = games.core(self._game).state.observations.get(number, ())
        told = games.rendered(self._game, unread, without=number)
        return self._observation(f"{told}\n{EPISODE_OVER}" if told else EPISODE_OVER)

    def _observation(self, content: str) -> TextObservation:
        return TextObservation(text.fit(content, self.max_text_length))

    def _checked(self, actions: Any) -> tuple[str, str]:
        """Who is asked, and its response."""
        need_episode(self.agents)
        check_joint_action(actions, self.possible_agents)
        assert self._asked is not None
        if self._asked not in actions:
            raise InvalidActionError(f"Agent {self._asked!r} has no action, and is asked in this step.")
        if (why := self.action_spaces[self._asked].why_not(actions[self._asked])) is not None:
            raise InvalidActionError(
                f"The action of agent {self._asked!r} is not in its space: {why}. "
                "action_space(agent).clip(text) gives the nearest text that is."
            )
        return self._asked, str(actions[self._asked])

    def _blocks(self) -> list[text.Block]:
        """The episode so far: a block for each move, and one for what is seen now."""
        moves = [
            (f"{self.game_id}, move {number}", text.render_turn(number, {player: seen}, {player: wrote}))
            for number, (player, seen, wrote) in enumerate(self._moves, start=1)
        ]
        if self._game is not None:
            seen = self.observations if self._asked is None else {self._asked: self.observations[self._asked]}
            moves.append((f"{self.game_id}, now", text.render_turn(len(moves) + 1, seen, {})))
        return moves

    def _render_if_human(self) -> None:
        if self.render_mode == "human":
            self.render()


def parallel_env(game: str, num_players: int = 2, **kwargs: Any) -> TextArenaGame:
    """A game of TextArena; :class:`TextArenaGame` lists the arguments and errors."""
    return TextArenaGame(game, num_players, **kwargs)


def env(game: str, num_players: int = 2, **kwargs: Any) -> AECEnv:
    """The same game as PettingZoo's AEC API has it. Every agent is stepped in turn; who is not asked is ignored."""
    return parallel_to_aec(TextArenaGame(game, num_players, **kwargs))


def to_textarena(env: ParallelEnv) -> ExportedEnv:
    """A parallel text environment as a game of TextArena; :class:`.textarena_export.ExportedEnv` says how it is played.

    Raises:
        ConfigError: not a parallel environment of text.
        MissingDependencyError: TextArena is not installed.
    """
    games.library()
    from .textarena_export import ExportedEnv

    return ExportedEnv(env)


register("textarena/game-v0", parallel_env)

"""How TextArena's games are built, copied and called here, with what is peculiar to them kept in one place.

They seed, and draw from, the global generators of ``random`` and NumPy; their wrappers cannot be pickled; and some of
them cannot be built where they are installed. :mod:`.textarena` plays them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import math
import numbers
import pickle
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, LlmMarlError, MissingDependencyError, UnknownNameError
from ..tables import did_you_mean, import_module

INSTALL = "pip install 'llm-marl-envs[textarena]'"
_LOCK = threading.RLock()  # the global generators can stand for one game at a time
# A game that keeps `random.random` holds the generator that it belongs to: a copy must hold the same one.
_draws: dict[str, Any] = {"random": random.random, "numpy": np.random.random_sample}
_GLOBAL: dict[str, Any] = {name: draw.__self__ for name, draw in _draws.items()}

Message = tuple[int, str, Any]  # sender (-1 is the game), text, TextArena's ObservationType
Layers = list[tuple[Any, dict[str, Any]]]  # class and attributes of each wrapper, the outermost first


class GameError(LlmMarlError, RuntimeError):
    """A game of TextArena failed: it raised, or paid what is no number. The fault is the game's; nothing is paid."""


class Randomness:
    """States of Python's and NumPy's global generators that belong to one game."""

    def __init__(self, seed: int):
        self._states: tuple[Any, Any] = random.Random(seed).getstate(), np.random.RandomState(seed).get_state()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block, the global generators are this game's; after it they are what they were."""
        with _LOCK:
            outside = random.getstate(), np.random.get_state()
            self._put(self._states)
            try:
                yield
            finally:
                self._states = random.getstate(), np.random.get_state()
                self._put(outside)

    @staticmethod
    def _put(states: tuple[Any, Any]) -> None:
        random.setstate(states[0])
        np.random.set_state(states[1])


@functools.cache
def library() -> Any:
    """The module ``textarena``, whose import draws from the global generators too.

    Raises:
        MissingDependencyError: it is not installed.
    """
    with Randomness(0).in_place():
        return import_module("textarena", install=INSTALL)


@contextlib.contextmanager
def blamed(game_id: str, what: str) -> Iterator[None]:
    """Within the block, whatever a game raises becomes a :class:`GameError` that names it.

    Args:
        game_id: the game's id.
        what: what it was asked to do, as in "could not be built".
    """
    try:
        yield
    except LlmMarlError:
        raise
    except Exception as error:  # noqa: BLE001 -- a third party's code may raise anything, and all of it is its failure
        first = (str(error).strip().splitlines() or [""])[0]
        raise GameError(
            f"TextArena's game {game_id} {what}: it raised {type(error).__name__}: {first[:300]} The cause lies in "
            "the game or in what it needs, not in a response."
        ) from error


def build(game_id: str, arguments: Mapping[str, Any]) -> Any:
    """An unplayed game, with the wrappers that it is registered with.

    Args:
        game_id: an id of TextArena's registry, or ``"package.module:id"``.
        arguments: keywords of the game's class.

    Raises:
        UnknownNameError: no such game.
        MissingDependencyError: NLTK lacks data that the game needs.
        ConfigError: ``game_id`` is no text, or the game does not take the arguments.
        GameError: the game cannot be built: it needs a key or a file, or a newer Python.
    """
    if not isinstance(game_id, str):
        raise ConfigError(f"game must be an id of TextArena, such as 'TicTacToe-v0', not {game_id!r}.")
    textarena = library()
    module, colon, name = game_id.rpartition(":")
    with Randomness(0).in_place():  # a game may shuffle its words when it is built: every copy shall have them alike
        if colon:
            import_module(module)
        known = textarena.envs.registration.ENV_REGISTRY
        if name not in known:
            raise UnknownNameError(
                f"TextArena {textarena.__version__} has no game {name!r}.{did_you_mean(name, known)} "
                f"textarena.pprint_registry_detailed() lists all {len(known)}. Your own is registered by "
                "textarena.register, and named 'package.module:id' where a module must be imported for it."
            )
        with blamed(game_id, "could not be built"):
            try:
                return textarena.make(name, **arguments)
            except TypeError as error:
                raise ConfigError(f"{game_id} was refused game_kwargs={dict(arguments)}: {error}.") from error
            except LookupError as error:
                if type(error) is not LookupError:  # NLTK raises no subclass
                    raise
                raise MissingDependencyError(
                    f"{game_id} needs data of NLTK. Fetch it once: "
                    "python -m nltk.downloader words averaged_perceptron_tagger_eng"
                ) from error


def start(game: Any, game_id: str, num_players: int, seed: int) -> Randomness:
    """Begin the one episode of a fresh game; returns its randomness.

    Raises:
        ConfigError: it cannot be played by so many.
        GameError: it raised.
    """
    randomness = Randomness(seed)
    with randomness.in_place(), blamed(game_id, f"could not be reset with seed {seed}"):
        try:
            game.reset(num_players=num_players, seed=seed)
        except (AssertionError, ValueError) as error:  # so they say that the number of players is wrong
            why = str(error) or "an assertion failed"
            raise ConfigError(
                f"{game_id} could not be started with num_players={num_players}: {why}. "
                "Pass num_players= (and game_kwargs=) that its rules allow."
            ) from error
    return randomness


def rendered(game: Any, messages: Sequence[Message], without: int) -> str:
    """Messages as TextArena writes them for its agents, the responses of player ``without`` left out (-1: of none)."""
    names = core(game).state.role_mapping
    response = library().ObservationType.PLAYER_ACTION
    return "\n".join(
        f"[{'GAME' if sender == -1 else names.get(sender, f'Player {sender}')}] {words}"
        for sender, words, kind in messages
        if not (kind is response and sender == without)
    )


def whole_view(game: Any, number: int, new: Sequence[Message], log: Sequence[Message]) -> str:
    """What the game's wrappers make of what is new to a player, which hold what came before; or all of it, where it
    has no such wrapper."""
    shown: Any = new
    for wrapper in wrappers(game):
        if isinstance(wrapper, library().ObservationWrapper):
            shown = wrapper.observation(number, shown)
    return shown if isinstance(shown, str) else rendered(game, log, without=-1)


def outcome(game: Any, game_id: str, num_players: int) -> tuple[list[float], list[dict[str, Any]]]:
    """Each player's reward, and what the game says of it, when it is over.

    Raises:
        GameError: the game paid somebody no finite number.
    """
    with blamed(game_id, "failed at its end"):
        paid, told = game.close()
    rewards = []
    for number in range(num_players):
        reward = paid.get(number) if isinstance(paid, Mapping) else None
        if not isinstance(reward, numbers.Real) or not math.isfinite(reward):
            raise GameError(
                f"TextArena's game {game_id} paid player {number} {reward!r}, which is no finite number. The cause "
                "lies in the game, not in a response: play another one, or mend it."
            )
        rewards.append(float(reward))
    return rewards, [dict(told.get(number, {})) for number in range(num_players)]


def core(game: Any) -> Any:
    """The game inside its wrappers."""
    return apart(game)[0]


def duplicate(game: Any) -> Any:
    """A deep copy. TextArena's wrappers copy themselves, but not where their constructors take arguments."""
    shared = {id(generator): generator for generator in _GLOBAL.values()}
    return together(*copy.deepcopy(apart(game), shared))


def dumped(games: Sequence[Any]) -> bytes:
    """Games as bytes. TextArena's wrappers recurse without end when they are read, so the games travel in parts."""
    out = io.BytesIO()
    _Pickler(out).dump([apart(game) for game in games])
    return out.getvalue()


def loaded(data: bytes) -> list[Any]:
    """What :func:`dumped` wrote."""
    library()  # first: reading imports TextArena, which must not move the reader's random generators
    return [together(*parts) for parts in _Unpickler(io.BytesIO(data)).load()]


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> str | None:
        return next((name for name, generator in _GLOBAL.items() if value is generator), None)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> Any:
        return _GLOBAL[name]


def apart(game: Any) -> tuple[Any, Layers]:
    """The game and its wrappers, each without what it wraps."""
    layers: Layers = []
    for wrapper in reversed(wrappers(game)):
        layers.append((type(wrapper), {name: value for name, value in vars(wrapper).items() if name != "env"}))
        game = wrapper.env
    return game, layers


def together(game: Any, layers: Layers) -> Any:
    """What :func:`apart` took apart."""
    for kind, attributes in reversed(layers):
        wrapper = kind.__new__(kind)
        vars(wrapper).update(attributes, env=game)
        game = wrapper
    return game


def wrappers(game: Any) -> list[Any]:
    """The wrappers of a game, the innermost first."""
    found: list[Any] = []
    while isinstance(game, library().Wrapper):
        found.insert(0, game)
        game = game.env
    return found

"""``TokenView``: a text environment in whole numbers, for libraries of multi-agent reinforcement learning that know
arrays only. ``docs/integrations/classic.md`` is its page: which library takes which spaces, and what can be learned.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space, Text
from numpy.typing import DTypeLike
from pettingzoo import ParallelEnv

from ..arguments import check_joint_action, need_episode
from ..errors import ConfigError, InvalidActionError
from ..spaces import nearest, shortest
from ..tables import did_you_mean
from .base import Infos, TextWrapper, why_not
from .tokenizers import Vocabulary, number_type

LENGTH = 256
ACTS, CUT = "acts", "cut_tokens"
Menu = Sequence[str] | Mapping[str, Sequence[str]]


class TokenView(TextWrapper):
    """A ``ParallelEnv`` with the same agents, whose observations and actions are arrays of whole numbers.

    **Symbols.** Token t of the tokenizer is the symbol t + 1, and 0 is no token: it pads, and it ends a text. So a row
    of zeros, which other libraries fill in for agents that have left, is the empty text. With ``V`` tokens there are
    V + 1 symbols.

    **Observations**: the symbols of the text, then padding; shape (length,). ``"box"`` is ``Box(0, V)`` of ``dtype``,
    ``"multidiscrete"`` is ``MultiDiscrete`` with V + 1 values at each position. Of a longer text the end is kept
    (``keep="start"``: the beginning), and ``infos[agent]["cut_tokens"]`` says how many tokens were left out.

    **Actions**: ``"multidiscrete"`` is an array of symbols, shape (length,), read up to the first 0. The text is
    fitted into the environment's action space (cut off at its limit, characters that it lacks left out, its shortest
    text where it wants more), so that every array is an action; bytes that are no UTF-8 become U+FFFD. ``"menu"`` is
    ``Discrete(n)``, a position in the list of responses given for the agent.

    **Infos** hold numbers only, under the same names at reset and after every step, as TorchRL wants them: ``acts`` (1
    where the environment says nothing), ``cut_tokens``, and those named by ``infos``. What an agent that is not asked
    (``acts`` 0) hands in is ignored and may be left out.

    ``state()``, where the environment's is text, is encoded like an observation; ``cut_state_tokens`` says how many
    tokens the last call left out.

    Args:
        env: a ``ParallelEnv`` whose observations and actions are text.
        tokenizer: ``"bytes"`` (UTF-8, 256 tokens), ``"package.module:attribute"``, or an object with ``encode(text) ->
            ids`` and ``decode(ids) -> text``, such as a tokenizer of transformers.
        length: symbols in an array, at least 1; or a mapping with some of ``"observation"``, ``"action"`` (256 each
            unless given) and ``"state"`` (by default the length of an observation times the number of agents).
        observations: ``"box"`` or ``"multidiscrete"``.
        actions: ``"multidiscrete"`` or ``"menu"``.
        menu: for ``actions="menu"`` the responses: one list for all agents, or a mapping from each agent to its own.
        keep: which end of a text that is too long is kept, ``"end"`` (what is new stands there) or ``"start"``.
        dtype: of observations and state. By default float32 for ``"box"``, since networks compute with it and RLlib
            wants it; int64 for ``"multidiscrete"``.
        infos: names of further numbers of the environment's infos, such as ``"score"`` or, inside a mapping,
            ``"terms.right"``. 0.0 wherever the environment has none, as at reset.
        vocabulary_size: how many tokens there are, where the tokenizer does not say, or says too few.

    Raises:
        ConfigError: an argument is out of range, a response of the menu is not in its agent's action space, the
            tokenizer does not say its size, or a space of the environment is not text.
        UnknownNameError: there is no tokenizer of that name.
    """

    def __init__(
        self,
        env: ParallelEnv,
        tokenizer: Any = "bytes",
        length: int | Mapping[str, int] = LENGTH,
        observations: Literal["box", "multidiscrete"] = "box",
        actions: Literal["multidiscrete", "menu"] = "multidiscrete",
        *,
        menu: Menu | None = None,
        keep: Literal["end", "start"] = "end",
        dtype: DTypeLike | None = None,
        infos: Sequence[str] = (),
        vocabulary_size: int | None = None,
    ):
        super().__init__(env)
        self.metadata = dict(getattr(env, "metadata", {}))  # those of the environment: this is no protocol
        for name, value, known in (
            ("observations", observations, ("box", "multidiscrete")),
            ("actions", actions, ("multidiscrete", "menu")),
            ("keep", keep, ("end", "start")),
        ):
            if value not in known:
                raise ConfigError(f"{name} must be {' or '.join(map(repr, known))}, not {value!r}.")
        self.vocabulary = Vocabulary(tokenizer, vocabulary_size)
        self.lengths = _lengths(length, len(env.possible_agents))
        self.menu = _menu(menu, env) if actions == "menu" else None
        if menu is not None and self.menu is None:
            raise ConfigError("menu has responses, and actions='multidiscrete' has no use for them: actions='menu'.")
        self.keep = keep
        self.info_names = _info_names(infos)
        self.cut_state_tokens = 0
        self._asked: tuple[str, ...] = ()
        kind = number_type(dtype, observations, self.vocabulary.size)
        # A space for each agent, since a space holds the random generator of its `sample`.
        spaces: dict[str, Any] = {
            a: self._space(observations, self.lengths["observation"], kind) for a in env.possible_agents
        }
        self.observation_spaces = spaces
        self.action_spaces: dict[str, Space[Any]] = {
            a: self._space("multidiscrete", self.lengths["action"], np.dtype(np.int64))
            if self.menu is None
            else Discrete(len(self.menu[a]))
            for a in env.possible_agents
        }
        self._state_space = self._space(observations, self.lengths["state"], kind)
        if isinstance(getattr(env, "state_space", None), Text):
            self.state_space = self._state_space

    def _space(self, observations: str, length: int, dtype: np.dtype[Any]) -> Space[Any]:
        if observations == "box":
            return Box(0, self.vocabulary.size, shape=(length,), dtype=dtype.type)
        return MultiDiscrete(np.full(length, self.vocabulary.size + 1), dtype=dtype.type)

    def observation_space(self, agent: str) -> Space[Any]:  # type: ignore[override]
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self.action_spaces[agent]

    @property
    def max_acting(self) -> int:
        """The most agents that are asked in one step: what the environment says, else all."""
        return int(getattr(self.env, "max_acting", len(self.possible_agents)))

    # -- text and arrays ----------------------------------------------------------------------------------------

    def encode_observation(self, agent: str, content: str) -> np.ndarray:
        """The array of a text that the agent is shown, shape (length,)."""
        return self._array(content, self.observation_spaces[agent])[0]

    def decode_observation(self, agent: str, array: Any) -> str:
        """The text of an observation: exactly what was encoded, unless tokens were cut or the tokenizer loses some.

        Raises:
            ConfigError: the array is not in the agent's observation space.
        """
        space = self.observation_spaces[agent]
        symbols = np.asarray(array).astype(space.dtype, copy=False)
        if not space.contains(symbols):
            raise ConfigError(
                f"This is no observation of {agent!r}, an array of shape {space.shape} of symbols from 0 to "
                f"{self.vocabulary.size}: {np.asarray(array)!r}."
            )
        return self.vocabulary.text(symbols)

    def encode_action(self, agent: str, content: str) -> np.ndarray | np.int64:
        """The action that writes a text: an array of shape (length,), or with a menu the position of the text in it.

        Raises:
            ConfigError: the text is too long, or is not in the menu.
        """
        if self.menu is not None:
            if content not in self.menu[agent]:
                raise ConfigError(f"The menu of {agent!r} has no {content!r}. It has: {list(self.menu[agent])}.")
            return np.int64(self.menu[agent].index(content))
        array, cut = self._array(content, self.action_spaces[agent])
        if cut:
            raise ConfigError(
                f"The text has {self.lengths['action'] + cut:,} tokens, and an action of {agent!r} holds "
                f"{self.lengths['action']:,}: pass length={{'action': ...}}."
            )
        return array

    def decode_action(self, agent: str, action: Any) -> str:
        """The text of an action, fitted into the environment's action space.

        Raises:
            InvalidActionError: the action is not in the agent's action space.
        """
        space = self.action_spaces[agent]
        if (why := _why_no_action(space, action)) is not None:
            raise InvalidActionError(f"The action of agent {agent!r} is not in its space: {why}.")
        if self.menu is not None:
            return self.menu[agent][int(action)]
        return nearest(self.env.action_space(agent), self.vocabulary.text(np.asarray(action)))

    def _array(self, content: str, space: Space[Any]) -> tuple[np.ndarray, int]:
        (length,) = space.shape  # type: ignore[misc]
        return self.vocabulary.symbols(content, length, space.dtype, self.keep)

    # -- the episode --------------------------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start an episode; both arguments go to the environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._told(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> Any:
        """Step the environment with the texts of the actions.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: an unknown agent; or one that is asked has no action, or one outside its space. Nothing
                has changed then.
        """
        live = list(getattr(self.env, "agents", ()))
        need_episode(live)
        check_joint_action(actions, self.possible_agents, "action")
        texts = {}
        for agent in live:
            if agent not in self._asked:
                texts[agent] = shortest(self.env.action_space(agent))
            elif agent not in actions:
                raise InvalidActionError(f"Agent {agent!r} has no action, and is asked in this step.")
            else:
                texts[agent] = self.decode_action(agent, actions[agent])
        observations, rewards, terminations, truncations, infos = self.env.step(texts)
        arrays, told = self._told(observations, infos)
        return arrays, rewards, terminations, truncations, told

    def _told(
        self, observations: Mapping[str, str], infos: Infos
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Observations as arrays, and infos as numbers. Notes who is asked next."""
        encoded = {a: self._array(o, self.observation_spaces[a]) for a, o in observations.items()}
        numbers_of = {}
        for agent in dict.fromkeys([*encoded, *infos]):
            info = infos.get(agent, {})
            cut = encoded[agent][1] if agent in encoded else 0
            numbers_of[agent] = {ACTS: int(info.get(ACTS, 1)), CUT: cut} | {
                n: _number(info, n) for n in self.info_names
            }
        self._asked = tuple(a for a in getattr(self.env, "agents", ()) if infos.get(a, {}).get(ACTS, 1))
        return {a: array for a, (array, _) in encoded.items()}, numbers_of

    def state(self) -> Any:
        """The environment's state as an array of symbols, shape (length,); what is no text is handed on as it is."""
        told = self.env.state()
        if not isinstance(told, str):
            return told
        array, self.cut_state_tokens = self._array(told, self._state_space)
        return array

    def clone(self, seed: int | None = None) -> TokenView:
        """An independent copy at the same point. The tokenizer is shared.

        Raises:
            CloneUnsupportedError: the environment inside has no ``clone`` of its own.
        """
        return self._copy(seed)


# -- arguments ----------------------------------------------------------------------------------------------------


def _lengths(length: Any, agents: int) -> dict[str, int]:
    given = dict(length) if isinstance(length, Mapping) else {"observation": length, "action": length}
    for kind, value in given.items():
        if kind not in ("observation", "action", "state"):
            hint = did_you_mean(str(kind), ["observation", "action", "state"])
            raise ConfigError(f"length has no {kind!r}.{hint} It takes 'observation', 'action' and 'state'.")
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"length ({kind}) must be a whole number of at least 1, not {value!r}.")
    lengths = {"observation": LENGTH, "action": LENGTH} | given
    return {"state": lengths["observation"] * agents} | lengths


def _menu(menu: Menu | None, env: ParallelEnv) -> dict[str, tuple[str, ...]]:
    agents = list(env.possible_agents)
    if menu is None:
        raise ConfigError("actions='menu' needs menu=: a list of responses, or one for each agent.")
    given = menu if isinstance(menu, Mapping) else dict.fromkeys(agents, menu)
    for agent in given:
        if agent not in agents:
            hint = did_you_mean(str(agent), agents)
            raise ConfigError(f"menu names an unknown agent {agent!r}.{hint} The agents are {agents}.")
    checked = {}
    for agent in agents:
        if agent not in given:
            raise ConfigError(f"menu has no responses for {agent!r}. Give every agent its list.")
        responses = given[agent]
        if isinstance(responses, str) or not isinstance(responses, Sequence) or not responses:
            raise ConfigError(f"The menu of {agent!r} must be a list of at least one response, not {responses!r}.")
        for number, response in enumerate(responses):
            if (why := why_not(env.action_space(agent), response)) is not None:
                raise ConfigError(
                    f"Entry {number} of the menu of {agent!r} is not in its action space {env.action_space(agent)}: "
                    f"{why}."
                )
        checked[agent] = tuple(str(response) for response in responses)
    return checked


def _info_names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ConfigError(f"infos must be a list of names such as ['score', 'terms.right'], not {names!r}.")
    if taken := {ACTS, CUT}.intersection(names):
        raise ConfigError(f"infos names {sorted(taken)}, which are always there. Leave them out.")
    return tuple(names)


# -- parts --------------------------------------------------------------------------------------------------------


def _number(info: Mapping[str, Any], name: str) -> float:
    """A number of the infos; 0.0 where there is none: NaN would differ from itself in PettingZoo's seed test."""
    key, _, inner = name.partition(".")
    value: Any = info.get(name, info.get(key))
    if inner and name not in info:
        value = value.get(inner) if isinstance(value, Mapping) else None
    if value is None:
        return 0.0
    if not isinstance(value, (numbers.Real, np.bool_)):
        raise ConfigError(
            f"infos: {name!r} is {type(value).__name__}, and must be a number. Name the number inside it."
        )
    return float(value)


def _why_no_action(space: Space[Any], action: Any) -> str | None:
    """Say in a few words why an action is not in its space of whole numbers; None if it is."""
    try:
        array = np.asarray(action)
    except ValueError:
        return f"it is no array but {type(action).__name__} of lists of different lengths"
    if array.dtype.kind not in "iu":
        return f"it is {type(action).__name__} of {array.dtype}, and must be whole numbers"
    if array.shape != space.shape:
        return f"its shape is {array.shape}, and must be {space.shape}"
    largest = int(space.n) - 1 if isinstance(space, Discrete) else int(space.nvec[0]) - 1  # type: ignore[attr-defined]
    if array.min() < 0 or array.max() > largest:
        wrong = int(array.min() if array.min() < 0 else array.max())
        return f"it holds {wrong}, and the limit is 0 to {largest}"
    return None

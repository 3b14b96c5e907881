"""What the protocol wrappers share: checked actions, observations with room for what is added, clones."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from gymnasium.spaces import Space, Text
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper

from .. import text
from ..arguments import check_joint_action, need_episode
from ..errors import CloneUnsupportedError, InvalidActionError
from ..spaces import TextObservation, UnicodeText, require_text_spaces, shortest

Infos = Mapping[str, Mapping[str, Any]]
StepResult = tuple[
    dict[str, TextObservation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
Wrapper = TypeVar("Wrapper", bound="TextWrapper")

HEADING = 160  # characters that a heading or a request may take, beside the names in it


class TextWrapper(BaseParallelWrapper):
    """Base of the wrappers: a text environment inside, ``unwrapped`` and unknown attributes forwarded.

    Subclasses set ``observation_spaces`` and, if they add to ``state()``, ``state_space``; and each defines ``clone``
    on its own class, since rollouts accept no other.

    Raises:
        ConfigError: a space of the environment is not text.
    """

    protocol = ""

    def __init__(self, env: ParallelEnv):
        super().__init__(env)
        require_text_spaces(env, f"{type(self).__name__} wraps")
        self.metadata = {**getattr(env, "metadata", {}), "protocol": self.protocol}
        self.observation_spaces: dict[str, UnicodeText] = {}

    def observation_space(self, agent: str) -> UnicodeText:
        return self.observation_spaces[agent]

    @property
    def max_acting(self) -> int:
        """The most agents that are asked in one step."""
        return len(self.possible_agents)

    def _copy(self: Wrapper, seed: int | None) -> Wrapper:
        """A copy of the wrapper around a clone of the environment. What changes during an episode must be replaced by
        the subclass, never mutated."""
        twin = copy.copy(self)
        twin.env = clone_of(self.env, seed)
        # A space holds the random generator of its `sample`.
        for name in ("observation_spaces", "action_spaces", "state_space"):
            if name in vars(self):
                setattr(twin, name, copy.deepcopy(vars(self)[name]))
        return twin

    def _check(self, actions: Any, live: Sequence[str], asked: Iterable[str]) -> dict[str, str]:
        """The actions of those who are asked; what the others hand in is ignored.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: an unknown agent; or one that is asked has no action, or one outside its space.
        """
        need_episode(live)
        check_joint_action(actions, self.possible_agents)
        checked = {}
        for agent in asked:
            if agent not in actions:
                raise InvalidActionError(f"Agent {agent!r} has no action, and is asked in this step.")
            if (why := why_not(self.action_space(agent), actions[agent])) is not None:
                raise InvalidActionError(f"The action of agent {agent!r} is not in its space: {why}.")
            checked[agent] = str(actions[agent])
        return checked

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.env!r}>"


class ProtocolWrapper(TextWrapper):
    """Base of the protocols that take several steps for one of the environment, which is then a *turn* of theirs.

    All that changes between resets is replaced, never mutated, so that clones may share it.
    """

    def __init__(self, env: ParallelEnv):
        super().__init__(env)
        self._turn = 0  # turns that have begun
        self._shown: dict[str, str] = {}  # what the environment shows each agent in this turn
        self._asked: tuple[str, ...] = ()  # whom it asks in this turn
        self._notes: dict[str, tuple[str, ...]] = {}  # what agents without memory were shown or wrote before
        self._said: tuple[str, ...] = ()  # what `state()` adds

    @property
    def steps_per_turn(self) -> int:
        """The most steps that a turn of the environment takes."""
        raise NotImplementedError

    @property
    def num_turns(self) -> int:
        """The most steps of an episode. AttributeError where the environment does not say."""
        return int(self.env.num_turns) * self.steps_per_turn

    def _make_room(self, observation: Mapping[str, int], state: int) -> None:
        """Make spaces for each observation and for ``state()``, so much longer than the environment's own."""
        longest = {a: self.env.observation_space(a).max_length for a in self.possible_agents}
        self.observation_spaces = {a: UnicodeText(n + observation[a]) for a, n in longest.items()}
        if isinstance(space := getattr(self.env, "state_space", None), Text):
            self.state_space = UnicodeText(space.max_length + state)

    def _lengths(self) -> dict[str, int]:
        """For each agent the longest text of its own, with a heading that names it."""
        return {a: self.env.action_space(a).max_length + len(a) + HEADING for a in self.possible_agents}

    @property
    def _live(self) -> list[str]:
        return list(getattr(self.env, "agents", ()))

    def _begin(self, observations: Mapping[str, Any], infos: Infos) -> None:
        """A turn begins: note what the environment shows, and whom it asks."""
        self._turn += 1
        self._shown = {a: str(observations[a]) for a in self._live}
        self._asked = tuple(a for a in self._live if infos.get(a, {}).get("acts", 1))

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; both arguments go to the environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._turn, self._notes, self._said = 0, {}, ()
        self._begin(observations, infos)
        return self._observations({}), self._infos(infos)

    def _note(self, agent: str, *added: str) -> None:
        """Keep for an agent that has no memory of its own, and is shown its whole transcript in every observation."""
        if self.metadata.get("history") == "full":
            self._notes = {**self._notes, agent: (*self._notes.get(agent, ()), *added)}

    def _text(self, agent: str, *parts: str) -> TextObservation:
        joined = "\n\n".join(part for part in parts if part)
        return TextObservation(text.fit(joined, self.observation_spaces[agent].max_length))

    def _actions(self, written: Mapping[str, str]) -> dict[str, str]:
        """A joint action for the environment: those who were not asked in the turn get a filler, which it ignores."""
        return {a: written[a] if a in written else shortest(self.env.action_space(a)) for a in self._live}

    @property
    def _acting(self) -> tuple[str, ...]:
        """Who is asked in the step that comes."""
        raise NotImplementedError

    def _observation(self, agent: str) -> TextObservation:
        """What a living agent sees now."""
        raise NotImplementedError

    def _between(self, rewards: dict[str, float], infos: Infos) -> StepResult:
        """What a step inside a turn returns: nobody ends."""
        no = dict.fromkeys(self._live, False)
        return self._observations({}), rewards, no, dict(no), self._infos(infos)

    def _turned(self, observations: Any, rewards: Any, terminations: Any, truncations: Any, infos: Infos) -> StepResult:
        """What the environment's own step returns, with the observations of the turn that begins."""
        self._begin(observations, infos)
        return self._observations(observations), rewards, terminations, truncations, self._infos(infos)

    def _observations(self, given: Mapping[str, Any]) -> dict[str, TextObservation]:
        """What the living see now; and of what the environment gave, the last words to those who left."""
        left = {a: self._text(a, str(given[a])) for a in given if a in self.observation_spaces}
        return left | {a: self._observation(a) for a in self._live}

    def _infos(self, infos: Infos) -> dict[str, dict[str, Any]]:
        agents = dict.fromkeys([*infos, *self._live])
        return {a: {**infos.get(a, {}), "acts": int(a in self._acting)} for a in agents}

    def state(self) -> Any:
        """The environment's state, and what was written since that it does not know of."""
        told = self.env.state()
        if not isinstance(told, str):
            return told  # arrays of a third party: nothing can be added
        whole = "\n\n".join([told, *self._said])
        space = vars(self).get("state_space")
        return TextObservation(whole if space is None else text.fit(whole, space.max_length))

    def render(self) -> Any:
        """The environment's rendering, and what was written in this turn."""
        shown = self.env.render()
        return "\n\n".join([shown, *self._said]) if isinstance(shown, str) else shown

    def _show(self, heading: str, body: str) -> None:
        """For a person who watches, print what was written inside a turn; the rest the environment prints."""
        if getattr(self, "render_mode", None) == "human":
            text.show([(heading, body)])


def clone_of(env: Any, seed: int | None = None) -> Any:
    """A clone by the environment's own type; an inherited ``clone`` may be that of something inside it.

    Raises:
        CloneUnsupportedError: its type defines none.
    """
    if "clone" not in vars(type(env)):
        raise CloneUnsupportedError(
            f"{env} cannot be cloned: its class {type(env).__name__} defines no clone() of its own. Define one that "
            "returns an independent copy; or reset another one with the same seed and replay the actions, as rollouts "
            "do."
        )
    return env.clone() if seed is None else env.clone(seed=seed)


def why_not(space: Space[Any], action: Any) -> str | None:
    """Say in a few words why an action is not in its text space; None if it is."""
    if isinstance(space, UnicodeText):
        return space.why_not(action)
    if not isinstance(action, str):
        return f"it is of type {type(action).__name__}, and must be a str"
    if not space.contains(action):
        longest = space.max_length  # type: ignore[attr-defined]
        return f"it has {len(action):,} characters, the limit is {longest:,}, or some that {space!r} does not allow"
    return None


def joined(names: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

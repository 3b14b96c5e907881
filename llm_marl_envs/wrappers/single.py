"""``SingleAgentView``: one model answers for all roles in one response, split by role tags.

The baseline of arXiv 2508.04652 in which one larger model works alone; and the way into single-agent libraries:
``.gymnasium()`` gives a ``gymnasium.Env``, and so does
``gymnasium.make("llm_marl_envs/SingleAgent-v0", env_id="writing/tldr-v0")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
from pettingzoo import ParallelEnv

from .. import text
from ..errors import ConfigError
from ..spaces import TextObservation, UnicodeText, nearest, shortest
from .base import HEADING, Infos, StepResult, TextWrapper, joined
from .sections import join_sections, split_sections, tags_of


class SingleAgentView(TextWrapper):
    """A ``ParallelEnv`` with ONE agent, which sees what all roles see and answers for all of them.

    Its observation holds each role's observation under the role's name, and a request for one response with a section
    for each role that is asked, between tags of its name. ``sections.py`` has the rules by which a response is split.
    A section that is missing is an empty response. A section is fitted to its role's action space (cut off at its
    limit; padded where the space wants more): a bad response is data and earns what it earns.

    The agent's reward is the joint reward; where the environment's ``reward_mode`` is ``"individual"``, it is the sum
    of the roles' rewards. An environment that has no ``reward_mode`` counts as joint; a step in which the roles'
    rewards differ all the same is an error that asks for ``joint_reward``.

    Its infos are those of the first role, with ``missing_sections``: how many of the roles that were asked had no
    section, and ``acts``: 0 where no role is asked. It terminates with the environment.

    Args:
        env: a ``ParallelEnv`` whose observations and actions are text.
        agent: the agent's name.
        joint_reward: ``"sum"`` or ``"mean"`` of the roles' rewards, whatever the environment; None as above.

    Raises:
        ConfigError: an argument is out of range, or a space is not text.
    """

    protocol = "single"

    def __init__(self, env: ParallelEnv, agent: str = "solo", joint_reward: Literal["sum", "mean"] | None = None):
        super().__init__(env)
        if not isinstance(agent, str) or not agent:
            raise ConfigError(f"agent must be the name of the one agent, not {agent!r}.")
        if joint_reward not in (None, "sum", "mean"):
            raise ConfigError(f"joint_reward must be 'sum', 'mean' or None, not {joint_reward!r}.")
        self.joint_reward = joint_reward
        self.roles = tuple(env.possible_agents)
        self.tags = tags_of(self.roles)
        self.agent = agent
        self.possible_agents = [agent]
        names = sum(len(role) + 2 * len(tag) for role, tag in self.tags.items()) + HEADING * (len(self.roles) + 2)
        seen = sum(env.observation_space(role).max_length for role in self.roles)
        written = sum(env.action_space(role).max_length for role in self.roles)
        self.observation_spaces = {agent: UnicodeText(seen + names)}
        self.action_spaces = {agent: UnicodeText(written + names)}
        self._asked: tuple[str, ...] = ()  # roles

    @property
    def agents(self) -> list[str]:
        return [self.agent] if getattr(self.env, "agents", ()) else []

    def action_space(self, agent: str) -> UnicodeText:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; both arguments go to the environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._ask(infos)
        return {self.agent: self._observation(observations)}, {self.agent: self._info(infos)}

    def step(self, actions: Mapping[str, str]) -> StepResult:
        """Split the response into the roles' actions and step the environment.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: an unknown agent, no action, or one outside the space. Nothing has changed then.
            ConfigError: the roles' rewards differ, and nothing says how they make one.
        """
        response = self._check(actions, self.agents, [self.agent] if self._asked else []).get(self.agent, "")
        found = split_sections(response, {role: self.tags[role] for role in self._asked})
        played = {}
        for role in self.env.agents:
            space = self.env.action_space(role)
            played[role] = nearest(space, found.get(role, "")) if role in self._asked else shortest(space)
        missing = len(self._asked) - len(found)
        observations, rewards, terminations, truncations, infos = self.env.step(played)
        over = not self.env.agents
        truncated = over and not all(terminations.values()) and any(truncations.values())
        self._ask(infos)
        return (
            {self.agent: self._observation(observations)},
            {self.agent: self._reward(rewards)},
            {self.agent: over and not truncated},
            {self.agent: truncated},
            {self.agent: {**self._info(infos), "missing_sections": missing}},
        )

    def clone(self, seed: int | None = None) -> SingleAgentView:
        """An independent copy at the same point.

        Raises:
            CloneUnsupportedError: the environment inside has no ``clone`` of its own.
        """
        return self._copy(seed)

    def gymnasium(self) -> gymnasium.Env[str, str]:
        """This view as a ``gymnasium.Env``. The two share one episode: step one of them."""
        return SingleAgentGymnasium(self)

    # -- parts --------------------------------------------------------------------------------------------------

    def _ask(self, infos: Infos) -> None:
        self._asked = tuple(r for r in self.env.agents if infos.get(r, {}).get("acts", 1))

    def _info(self, infos: Infos) -> dict[str, Any]:
        first = next((infos[role] for role in self.roles if role in infos), {})
        return {**first, "acts": int(bool(self._asked))}

    def _reward(self, rewards: Mapping[str, float]) -> float:
        paid = [float(r) for r in rewards.values()]
        how = self.joint_reward or ("sum" if getattr(self.env, "reward_mode", None) == "individual" else None)
        if how is None and len(set(paid)) > 1:
            raise ConfigError(
                f"{self.env}: the roles earned different rewards, {dict(rewards)}. Say how they make one: "
                "SingleAgentView(env, joint_reward='sum') or 'mean'."
            )
        if not paid:
            return 0.0
        return sum(paid) / (len(paid) if how == "mean" else 1) if how else paid[0]

    def _observation(self, observations: Mapping[str, Any]) -> TextObservation:
        roles = [role for role in self.roles if role in observations]
        parts = [str(observations[role]) for role in roles]
        if self.env.agents:
            parts = [f"What {role} is told:\n{told}" for role, told in zip(roles, parts, strict=True)]
            parts.append(self._request())
        else:
            parts = list(dict.fromkeys(parts))  # mostly the same last words to all
        return TextObservation(text.fit("\n\n".join(parts), self.observation_spaces[self.agent].max_length))

    def _request(self) -> str:
        if not self._asked:
            return "Nobody is asked now: what you write is ignored."
        form = join_sections(dict.fromkeys(self._asked, "..."), self.tags)
        return (
            f"You write for {joined(self._asked)}. Give one response with a section for each of them, between its tags "
            f"like this:\n{form}"
        )


class SingleAgentGymnasium(gymnasium.Env[str, str]):
    """A :class:`SingleAgentView` as Gymnasium's API has it: one observation, one action, one reward.

    Spaces are ``UnicodeText``: every text up to a length.
    """

    def __init__(self, view: SingleAgentView):
        self.view = view
        self.metadata = {"render_fps": 1, **view.metadata}
        self.render_mode = getattr(view, "render_mode", None)
        self.observation_space = view.observation_spaces[view.agent]
        self.action_space = view.action_spaces[view.agent]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)  # Gymnasium's own generator, which nothing here draws from
        observations, infos = self.view.reset(seed=seed, options=options)
        return observations[self.view.agent], infos[self.view.agent]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        agent = self.view.agent
        observations, rewards, terminations, truncations, infos = self.view.step({agent: action})
        return observations[agent], rewards[agent], terminations[agent], truncations[agent], infos[agent]

    def render(self) -> Any:
        return self.view.render()

    def close(self) -> None:
        self.view.close()


def make_gymnasium(
    env_id: str,
    joint_reward: Literal["sum", "mean"] | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> gymnasium.Env[str, str]:
    """What ``gymnasium.make("llm_marl_envs/SingleAgent-v0", env_id=...)`` calls.

    Args:
        env_id: an id of ``llm_marl_envs.make``.
        joint_reward: see :class:`SingleAgentView`.
        render_mode: of the environment.
        **kwargs: the environment's own keywords.
    """
    from ..registry import make

    return SingleAgentView(make(env_id, render_mode=render_mode, **kwargs), joint_reward=joint_reward).gymnasium()

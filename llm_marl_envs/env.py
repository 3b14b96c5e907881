"""``CollaborationEnv``: agents that write text together, as a PettingZoo ``ParallelEnv``. The only turn loop.

A task says what the agents are asked and what their joint answer is worth; this file does all the rest: rows, turns,
feedback, spaces, rewards, state, rendering and cloning.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from gymnasium import logger
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from . import feedback as feedback_modes
from . import text
from .arguments import at_least, check_joint_action, one_of
from .datasets import Rows
from .errors import ConfigError, InvalidActionError, ResetNeededError
from .spaces import TextObservation, UnicodeText
from .tables import did_you_mean, load_object
from .task import Score, Task, Turn

MAX_TEXT_LENGTH = 65_536
EPISODE_OVER = "The episode is over."
ScoreFunction = Callable[[Mapping[str, Any], Mapping[str, str]], Score]


class CollaborationEnv(ParallelEnv[str, TextObservation, str]):
    """Agents of one task answer at once, turn by turn, and earn one joint reward.

    Args:
        task: prompts and scores.
        rows: what ``datasets.load_rows`` returns.
        num_turns: the horizon, at least 1. An episode also ends when the score says that the task is solved.
        reward_mode: ``"joint"`` gives every agent the joint score; ``"individual"`` gives each its own part, where
            the task defines one.
        turn_reward: what a turn pays where ``num_turns`` > 1. ``"sum"``: the score of every turn; ``"last"``: the
            score of the last turn only; ``"offset"``: as ``"sum"``, but for a task that can be solved early the score
            minus its maximum (never positive), so that solving it never earns less than almost solving it and going on.
        history: ``"none"`` shows an agent what is new, for agents that remember; ``"full"`` renders its own
            transcript into every observation, for agents that do not.
        feedback: a mode of ``llm_marl_envs.feedback``, ``"package.module:function"``, or a function.
        feedback_kwargs: for a mode that is made with arguments, such as ``{"propose": ...}`` of ``"expert"``.
        share_responses: whether each agent also sees the others' last responses.
        max_text_length: the longest action and observation in characters. It is a safety bound, not a budget.
        score: replaces the task's own score: ``(row, responses) -> Score`` or ``"package.module:function"``.
        weights: multiplies named terms of the score; numbers of at least 0.
        max_score: the maximum of the score, where ``score=`` makes the task's own maximum wrong.
        render_mode: ``None``, ``"ansi"`` (``render()`` returns the transcript) or ``"human"`` (prints each turn).

    ``infos[agent]`` after a step: ``terms`` (name -> value), ``score`` (joint, raw), ``turn`` (1 for the first),
    ``solved`` (0 or 1), ``details``. At reset they are empty.

    Raises:
        ConfigError: an argument is out of range, or the task lacks what it asks for.
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "ansi"], "is_parallelizable": True}

    def __init__(
        self,
        task: Task[Any],
        rows: Rows,
        *,
        num_turns: int = 1,
        reward_mode: Literal["joint", "individual"] = "joint",
        turn_reward: Literal["offset", "sum", "last"] = "offset",
        history: Literal["none", "full"] = "none",
        feedback: str | feedback_modes.Feedback = "revise",
        feedback_kwargs: Mapping[str, Any] | None = None,
        share_responses: bool = False,
        max_text_length: int = MAX_TEXT_LENGTH,
        score: str | ScoreFunction | None = None,
        weights: Mapping[str, float] | None = None,
        max_score: float | None = None,
        render_mode: str | None = None,
    ):
        one_of("reward_mode", reward_mode, ("joint", "individual"))
        one_of("turn_reward", turn_reward, ("offset", "sum", "last"))
        one_of("history", history, ("none", "full"))
        one_of("render_mode", render_mode, (None, *type(self).metadata["render_modes"]))
        at_least("num_turns", num_turns, 1)
        at_least("max_text_length", max_text_length, 256)
        self.task = task
        self.rows = rows
        self.num_turns = num_turns
        self.reward_mode = reward_mode
        self.turn_reward = turn_reward
        self.history = history
        self.share_responses = share_responses
        self.max_text_length = max_text_length
        self.render_mode = render_mode
        self.weights = _checked_weights(weights, task, custom_score=score is not None)
        self._feedback = feedback_modes.resolve(feedback, feedback_kwargs)
        self._custom_score: ScoreFunction | None = None
        if score is not None:
            self._custom_score = _function("score", load_object(score) if isinstance(score, str) else score)
        self._offset = turn_reward == "offset" and num_turns > 1 and task.can_finish_early
        self.max_terms = {k: v * self.weights.get(k, 1.0) for k, v in task.max_terms.items()} if score is None else {}
        self.max_score = self._maximum(max_score)
        self.metadata = {**type(self).metadata, "name": task.name, "history": history}

        self.possible_agents = list(task.agents)
        self.agents: list[str] = []
        self.observation_spaces = {a: UnicodeText(max_text_length) for a in self.possible_agents}
        longest = min(max_text_length, task.max_response_length or max_text_length)
        self.action_spaces = {a: UnicodeText(longest) for a in self.possible_agents}
        # Per turn and agent one observation and one action with their headings, and the row's description.
        pairs = (num_turns + 1) * len(self.possible_agents)
        self.state_space = UnicodeText(max_text_length * (2 * pairs + 1) + 256 * (pairs + 1))
        self._np_random: np.random.Generator | None = None
        self.row: Mapping[str, Any] | None = None
        self.turns: tuple[Turn, ...] = ()
        self.observations: dict[str, TextObservation] = {}

    # -- spaces -------------------------------------------------------------------------------------------------

    def observation_space(self, agent: str) -> UnicodeText:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        return self.action_spaces[agent]

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's own random generator; seeded from the system if ``reset`` got no seed yet."""
        if self._np_random is None:
            self._np_random, _ = seeding.np_random()
        return self._np_random

    # -- the episode --------------------------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, TextObservation], dict[str, dict[str, Any]]]:
        """Start an episode on one row.

        Args:
            seed: the same seed picks the same row on any copy, in any process. None goes on with the generator.
            options: ``{"index": i}`` or ``{"id": row_id}`` picks the row outright; other options are ignored.
        """
        if seed is not None:
            self._np_random, _ = seeding.np_random(seed)
        # Drawn even where options pick the row, so that options do not shift the episodes that follow.
        index = int(self.np_random.integers(len(self.rows)))
        if options and options.get("id") is not None:
            index = self.rows.index_of(options["id"])
        elif options and options.get("index") is not None:
            index = self._checked_index(options["index"])
        row = self.rows[index]
        observations = {a: self._observation(self.task.prompt(row, a)) for a in self.possible_agents}
        self.row, self.turns, self.observations = row, (), observations
        self.agents = list(self.possible_agents)
        self._render_if_human()
        return dict(self.observations), {a: {} for a in self.agents}

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[
        dict[str, TextObservation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Score one joint action and tell the agents what comes next.

        Raises:
            ResetNeededError: there is no episode.
            InvalidActionError: a missing or unknown agent, or an action outside its space. Nothing has changed then.
        """
        self._check_actions(actions)
        assert self.row is not None
        agents = self.agents
        score = self._scored(actions)
        turns = (*self.turns, Turn(self.observations, {a: str(actions[a]) for a in agents}, score))
        over = score.solved or len(turns) == self.num_turns
        rewards = self._rewards(score, over)
        observations = {a: self._next_observation(a, turns, over) for a in agents}
        info = {"score": score.total, "turn": len(turns), "solved": int(score.solved)}
        infos = {a: {**info, "terms": dict(score.terms), "details": dict(score.details)} for a in agents}

        # Everything that can fail is behind us: only now does the environment change.
        self.turns, self.observations = turns, observations
        self.agents = [] if over else list(agents)
        self._render_if_human()
        return (
            dict(observations),
            rewards,
            dict.fromkeys(agents, over),
            dict.fromkeys(agents, False),
            infos,
        )

    def clone(self, seed: int | None = None) -> CollaborationEnv:
        """An independent copy at the same point of the episode. Task and rows are shared: they never change.

        Args:
            seed: gives the copy fresh randomness; by default it continues with a copy of this one's.
        """
        twin = copy.copy(self)
        twin.agents = list(self.agents)
        twin.observations = dict(self.observations)
        twin._np_random = copy.deepcopy(self._np_random) if seed is None else seeding.np_random(seed)[0]
        # A space holds the random generator of its `sample`.
        twin.observation_spaces = copy.deepcopy(self.observation_spaces)
        twin.action_spaces = copy.deepcopy(self.action_spaces)
        twin.state_space = copy.deepcopy(self.state_space)
        return twin

    def state(self) -> TextObservation:
        """All that a centralised critic may see: the row's description, every observation and action so far."""
        if self.row is None:
            raise ResetNeededError("state() needs an episode: call reset() first.")
        parts = [self.state_space.clip(self.task.describe(self.row)[: self.max_text_length])]
        parts += [text.render_turn(i, turn.observations, turn.actions) for i, turn in enumerate(self.turns, start=1)]
        if self.agents:
            parts.append(text.render_turn(len(self.turns) + 1, self.observations, {}))
        return TextObservation("\n\n".join(part for part in parts if part))

    def render(self) -> str | None:
        """The transcript so far as text (``"ansi"``), or its newest turn printed (``"human"``)."""
        if self.render_mode is None:
            logger.warn("render() does nothing without a render mode: make(..., render_mode='ansi') or 'human'.")
            return None
        if self.render_mode == "human":
            text.show(text.render_blocks(self, newest=True))
            return None
        return text.join(text.render_blocks(self))

    def close(self) -> None:
        """Nothing to release."""

    # -- parts --------------------------------------------------------------------------------------------------

    def _check_actions(self, actions: Any) -> None:
        if not self.agents:
            raise ResetNeededError(
                "step() needs an episode: call reset() first."
                if self.row is None
                else "step() after the episode ended: call reset() for the next one."
            )
        check_joint_action(actions, self.possible_agents)
        for agent in self.agents:
            if agent not in actions:
                raise InvalidActionError(f"Agent {agent!r} has no action. All of {self.agents} act in every step.")
            if (why := self.action_spaces[agent].why_not(actions[agent])) is not None:
                raise InvalidActionError(
                    f"The action of agent {agent!r} is not in its space: {why}. "
                    "action_space(agent).clip(text) gives the nearest text that is."
                )

    def _checked_index(self, index: Any) -> int:
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or not 0 <= index < len(self.rows):
            raise ConfigError(f"options['index'] must be a whole number from 0 to {len(self.rows) - 1}, not {index!r}.")
        return int(index)

    def _scored(self, actions: Mapping[str, str]) -> Score:
        assert self.row is not None
        responses = {a: str(actions[a]) for a in self.agents}
        if self._custom_score is None:
            score = self.task.score_turn(self.row, self.turns, responses)
        else:
            score = self._custom_score(self.row, responses)
        if not isinstance(score, Score):
            raise ConfigError(f"The score function returned {type(score).__name__}; it must return a Score.")
        if score.solved and not self.task.can_finish_early:
            raise ConfigError(f"Task {self.task.name!r} returned solved=True: set can_finish_early = True on it.")
        if self._custom_score is None:
            score = replace(score, limits=self.task.max_terms)
        if self.weights:
            score = score.weighted(self.weights)
        if self._offset and self.max_score is not None and score.total > self.max_score + 1e-6:
            raise ConfigError(
                f"A score of {score.total:g} is above its maximum of {self.max_score:g}, so turn_reward='offset' would "
                "punish an early finish. Correct Task.max_terms or max_score=, or use turn_reward='sum'."
            )
        return score

    def _rewards(self, score: Score, over: bool) -> dict[str, float]:
        """Shape (number of agents,): what this turn pays."""
        if self.reward_mode == "joint":
            raw = dict.fromkeys(self.agents, score.total)
            best = dict.fromkeys(self.agents, self.max_score)
        else:
            if score.per_agent is None:
                raise ConfigError(
                    f"Task {self.task.name!r} does not split its score by agent: use reward_mode='joint', "
                    "or return Score(per_agent=...)."
                )
            if missing := [a for a in self.agents if a not in score.per_agent]:
                raise ConfigError(f"Score.per_agent of task {self.task.name!r} has no part for {missing}.")
            raw, best = dict(score.per_agent), dict(self._max_parts())
        if self._offset:
            return {a: float(raw[a] - best[a]) for a in self.agents}  # type: ignore[operator]
        if self.turn_reward == "last" and not over:
            return dict.fromkeys(self.agents, 0.0)
        return {a: float(raw[a]) for a in self.agents}

    def _max_parts(self) -> Mapping[str, float]:
        """For each agent a bound that its part never exceeds, so that no offset reward is positive."""
        if self._custom_score is not None:
            return dict.fromkeys(self.possible_agents, self.max_score or 0.0)
        # `Score.weighted` scales a part as it does the total: by no more than the largest weight.
        scale = max((self.weights.get(term, 1.0) for term in self.task.max_terms), default=1.0)
        return {a: part * scale for a, part in self.task.max_parts().items()}

    def _maximum(self, max_score: float | None) -> float | None:
        if max_score is not None:
            return float(max_score)
        if self.max_terms:
            return float(sum(self.max_terms.values()))
        if self._offset:
            raise ConfigError(
                "turn_reward='offset' needs the maximum of the score: pass max_score=, or use turn_reward='sum'."
            )
        return None

    def _next_observation(self, agent: str, turns: tuple[Turn, ...], over: bool) -> TextObservation:
        if over:
            return TextObservation(EPISODE_OVER)
        assert self.row is not None
        told = self._feedback(self.row, turns, turns[-1].score, agent)
        if not isinstance(told, str):
            raise ConfigError(
                f"The feedback function returned {type(told).__name__} for {agent!r}; it must return str."
            )
        if self.share_responses:
            told = text.with_responses(told, turns[-1].actions, agent, self.max_text_length)
        if self.history == "full":
            told = text.with_history(self.task.prompt(self.row, agent), told, turns, agent)
        return self._observation(told)

    def _observation(self, content: str) -> TextObservation:
        return TextObservation(text.fit(content, self.max_text_length))

    def _render_if_human(self) -> None:
        if self.render_mode == "human":
            self.render()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.task.name} agents={self.possible_agents} num_turns={self.num_turns}>"


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise ConfigError(f"{name} must be a name, 'package.module:function' or a function, not {value!r}.")
    return value


def _checked_weights(weights: Mapping[str, float] | None, task: Task[Any], custom_score: bool) -> dict[str, float]:
    for term, weight in (weights or {}).items():
        if not custom_score and term not in task.max_terms:
            hint = did_you_mean(term, task.max_terms)
            raise ConfigError(
                f"weights: {task.name!r} has no term {term!r}.{hint} It has: {', '.join(task.max_terms)}."
            )
        if not isinstance(weight, (int, float)) or not 0 <= weight < float("inf"):
            raise ConfigError(f"weights: the weight of {term!r} must be a number of at least 0, not {weight!r}.")
    return dict(weights or {})

"""PettingZoo's rules: agents, spaces, what ``reset`` and ``step`` return. Other checks rely on them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from .comparing import is_finite
from .findings import fail, raised, short
from .playing import MAX_STEPS, SEED, STEPS, ActionPlan, play, reset, step, where


def check_agents(env: ParallelEnv) -> None:
    """``possible_agents`` lists the agents."""
    agents = getattr(env, "possible_agents", None)
    if not isinstance(agents, (list, tuple)) or not agents or len(set(agents)) != len(agents):
        fail(
            f"env.possible_agents is {short(agents)}; it must list the agents, each once, before reset() is called.",
            "In __init__: self.possible_agents = ['planner', 'writer'].",
        )


def check_spaces(env: ParallelEnv) -> None:
    """Each agent has an observation space and an action space, the same objects whenever they are asked for."""
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            try:
                space, again = (getattr(env, name)(agent) for _ in range(2))
            except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
                raise raised(f"{name}({agent!r})", error) from error
            if not isinstance(space, spaces.Space):
                fail(
                    f"{name}({agent!r}) is {short(space)}, which is no gymnasium.spaces.Space.",
                    "For text return UnicodeText(65_536) of llm_marl_envs.",
                )
            if space is not again:
                fail(
                    f"{name}({agent!r}) is not the exact same space object at each call, so it cannot be seeded.",
                    f"In __init__: self.{name}s = {{a: UnicodeText(65_536) for a in self.possible_agents}}; in "
                    f"{name}(agent): return self.{name}s[agent].",
                )


def check_reset(env: ParallelEnv) -> None:
    """``reset(seed=, options=)`` returns observations and infos of the agents that it starts with."""
    for keyword in ("seed", "options"):
        try:
            inspect.signature(env.reset).bind(**{keyword: None})
        except TypeError:
            fail(f"reset() takes no {keyword}=.", "Define it as: def reset(self, seed=None, options=None).")
    returned = reset(env)
    if not isinstance(returned, tuple) or len(returned) != 2:
        fail(
            f"reset() returned {_kind(returned)}; it must return two dicts, observations and infos.",
            "End it with: return observations, {agent: {} for agent in self.agents}.",
        )
    agents = getattr(env, "agents", None)
    if not isinstance(agents, list) or not agents or not set(agents) <= set(env.possible_agents):
        fail(
            f"env.agents is {short(agents)} after reset(); it must list those of possible_agents who play.",
            "In reset(): self.agents = list(self.possible_agents).",
        )
    _check_dicts(dict(zip(("observations", "infos"), returned, strict=True)), agents, f"reset(seed={SEED})")


def check_step(env: ParallelEnv) -> None:
    """``step`` returns five dicts with an entry for every agent that acted, at the last step too."""
    observations, _ = reset(env)
    plan = ActionPlan(env)
    gone: set[str] = set()
    for number in range(1, MAX_STEPS + 1):
        if not env.agents:
            return
        acted, actions = list(env.agents), plan.next(observations)
        returned = step(env, actions, number)
        if not isinstance(returned, tuple) or len(returned) != 5:
            fail(
                f"step() returned {_kind(returned)}; it must return five dicts: {', '.join(STEPS)}.",
                "`done` of old environments is two: terminations (the task is over) and truncations (it was cut).",
            )
        dicts = dict(zip(STEPS, returned, strict=True))
        _check_dicts(dicts, acted, where(number), joined=env.agents)
        for agent in acted:
            if not is_finite(reward := dicts["rewards"][agent]):
                fail(
                    f"the reward of agent {agent!r} is {short(reward)} at {where(number)}; it must be a finite number.",
                    "Return float(...) of it; what a model writes badly earns a low number, never None or nan.",
                )
            for name in ("terminations", "truncations"):
                if not isinstance(ended := dicts[name][agent], (bool, np.bool_)):
                    fail(
                        f"{name}[{agent!r}] is {short(ended)} at {where(number)}; it must be True or False.",
                        f"Return bool(...) of it in {name}.",
                    )
        if back := sorted(gone.intersection(env.agents)):
            fail(
                f"agents {back} are in env.agents again at {where(number)}, after they had ended.",
                "Who has ended stays away until the next reset().",
            )
        ended = [a for a in acted if dicts["terminations"][a] or dicts["truncations"][a]]
        gone.update(ended)
        if stay := [a for a in ended if a in env.agents]:
            fail(
                f"agents {stay} ended at {where(number)} and are still in env.agents.",
                "At the end of step(): "
                "self.agents = [a for a in self.agents if not (terminations[a] or truncations[a])].",
            )
        observations = returned[0]


def check_observations(env: ParallelEnv) -> None:
    """Every observation lies in its space."""
    for played in play(env):
        for agent, observation in played.observations.items():
            space = env.observation_space(agent)
            if not space.contains(observation):
                fail(
                    f"the observation of agent {agent!r} lies outside its observation_space {space!r} at "
                    f"{played.where}: {short(observation)}{_because(space, observation)}.",
                    "Widen the space, or clip the text: self.observation_space(agent).clip(text)."
                    if hasattr(space, "clip")
                    else "Widen the space, or return what it allows, of its own type.",
                )


def check_actions(env: ParallelEnv) -> None:
    """What an action space samples lies in it."""
    for played in play(env):
        for agent, action in (played.actions or {}).items():
            if not env.action_space(agent).contains(action):
                fail(
                    f"action_space({agent!r}).sample() gives {short(action)}, which the space does not contain.",
                    "Mend the space's sample() or contains().",
                )


def _check_dicts(dicts: Mapping[str, Any], agents: list[str], place: str, joined: Sequence[str] = ()) -> None:
    for name, values in dicts.items():
        if not isinstance(values, Mapping):
            fail(f"{name} is {_kind(values)} at {place}.", f"It must be a dict: {name} = {{agent: ...}}.")
        if missing := [a for a in agents if a not in values]:
            fail(
                f"the dict of {name} has no entry for {missing} at {place}.",
                "reset() returns both dicts for every agent of env.agents, and step() all five dicts for every agent "
                "that acted, at the last step too.",
            )
        if (strangers := [a for a in values if a not in agents and a not in joined]) and name != "infos":
            fail(
                f"the dict of {name} has an entry for {strangers} at {place}, and the agents then were {agents}.",
                "Leave out who is no agent, or has left.",
            )
    for agent, info in dicts["infos"].items():
        if not isinstance(info, Mapping):
            fail(f"infos[{agent!r}] is {short(info)} at {place}.", "An info is a dict; {} if there is nothing to say.")


def _because(space: spaces.Space[Any], value: Any) -> str:
    if hasattr(space, "why_not"):
        return f" ({space.why_not(value)})"
    if isinstance(value, np.ndarray):
        return f" (dtype {value.dtype}, shape {value.shape})"
    return f" (a {type(value).__name__})"


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return short(value) if value is None else f"a {type(value).__name__}"

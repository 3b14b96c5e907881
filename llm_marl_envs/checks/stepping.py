"""Our additions about single steps: copies in mid-episode, actions that must be refused, actions that do not count."""

from __future__ import annotations

import copy
from typing import Any

from gymnasium import spaces
from pettingzoo import ParallelEnv

from .comparing import Comparable, difference
from .findings import fail, raised
from .playing import MAX_HORIZON, MAX_STEPS, SEED, ActionPlan, fresh_copy, named, picture, play, reset, step, stepped

_STRANGER = "nobody-of-that-name"
_RESET_FIRST = "At the top of step(): if not self.agents: raise ResetNeededError('The episode is over: call reset().')."


def check_ignored_actions(env: ParallelEnv) -> None:
    """What an agent with ``acts`` 0 hands in makes no difference."""
    episodes: list[list[Comparable]] = []
    for other in (False, True):
        copy_ = fresh_copy(env)
        observations, infos = reset(copy_)
        plan, episode = ActionPlan(copy_), []
        for number in range(1, MAX_STEPS + 1):
            if not copy_.agents:
                break
            actions = plan.next(observations)
            for agent in copy_.agents:
                if other and not infos.get(agent, {}).get("acts", 1):
                    # From a copy of the space, so that the action of its next turn stays what it was.
                    actions[agent] = copy.deepcopy(copy_.action_space(agent)).sample()
            results = step(copy_, actions, number)
            episode.append(Comparable(named(results)))
            observations, infos = results[0], results[4]
        episodes.append(episode)
    for number, (mine, its) in enumerate(zip(*episodes, strict=False), start=1):
        if mine != its:
            fail(
                f"step {number} depends on the action of an agent whose infos[agent]['acts'] was 0: "
                f"{difference(mine, its)}.",
                "Ignore what it hands in, or ask it (acts = 1).",
            )


def check_clone(env: ParallelEnv) -> None:
    """A clone taken in mid-episode goes on like the original, and neither moves the other."""
    defined = {name for cls in type(env).__mro__ if cls.__module__ != "pettingzoo.utils.env" for name in vars(cls)}
    if "clone" not in defined:
        fail(
            "its class defines no clone(), by which tree rollouts copy an environment in mid-episode.",
            "Define clone(self, seed=None), which returns an independent copy at the same point: copy.deepcopy(self) "
            "will do. (A wrapper must define its own: an inherited one gives the unwrapped environment.)",
        )
    for cut in (0, 1):
        reset(env)
        plan = ActionPlan(env)
        for number in range(1, cut + 1):
            if not env.agents:
                return
            step(env, plan.next(), number)
        twin = _clone(env)
        for number in range(cut + 1, cut + 1 + MAX_STEPS):
            if not env.agents:
                break
            actions = plan.next()
            before = picture(twin)
            mine = stepped(env, actions, number)
            if (now := picture(twin)) != before:
                _shared("stepping the original changed its clone", before, now)
            before = picture(env)
            its = stepped(twin, actions, number)
            if (now := picture(env)) != before:
                _shared("stepping a clone changed the original", before, now)
            if mine != its:
                fail(
                    f"a clone taken after {cut} steps goes on differently: at step {number}, {difference(mine, its)}.",
                    "Let clone() copy all that an episode has changed, counters and random generator too.",
                )
    reset(env)
    try:
        env.clone(seed=SEED)
    except TypeError as error:
        fail(
            f"clone(seed=...) raised {error}.",
            "Define clone(self, seed=None); a seed gives the copy fresh randomness.",
        )


def _clone(env: Any) -> Any:
    try:
        twin = env.clone()
    except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
        raise raised("clone()", error) from error
    if twin is env:
        fail("clone() returned the environment itself.", "Return an independent copy: copy.deepcopy(self) will do.")
    if type(twin) is not type(env):
        fail(
            f"clone() returned a {type(twin).__name__}, not a {type(env).__name__}.",
            "Return a copy of the same class; a wrapper wraps the clone of what is inside it.",
        )
    return twin


def _shared(what: str, before: Comparable, now: Comparable) -> None:
    fail(
        f"{what} ({difference(before, now)}).",
        "Both share what changes: copy it in clone() (copy.deepcopy(self) copies everything).",
    )


def check_bad_actions(env: ParallelEnv) -> None:
    """A bad step raises an error that names the agent (and the limit), and changes nothing."""
    _, infos = reset(env)
    good = ActionPlan(env).next()
    # Only the action of an agent that is asked must be there and right.
    agent = next((a for a in env.agents if infos.get(a, {}).get("acts", 1)), env.agents[0])
    space = env.action_space(agent)
    bad: dict[str, Any] = {
        "an action of the wrong type": {**good, agent: 12345},
        "a missing agent": {a: t for a, t in good.items() if a != agent},
        "an unknown agent": {**good, _STRANGER: good[agent]},
    }
    if isinstance(space, spaces.Text) and space.max_length < 10_000_000:
        bad["a text over the limit"] = {**good, agent: "x" * (space.max_length + 1)}
    before = picture(env)
    for what, actions in bad.items():
        name = _STRANGER if "unknown" in what else str(agent)
        limit = f"{space.max_length:,}" if "limit" in what else None
        mend = "At the top of step(), before anything changes: raise InvalidActionError(f'... {agent!r} ...')."
        try:
            env.step(actions)
        except Exception as error:  # noqa: BLE001 -- which exception it is matters less than what it says
            if name not in str(error):
                fail(f"step() with {what} raises {error!r}, which does not name the agent {name!r}.", mend)
            if limit is not None and limit.replace(",", "") not in str(error).replace(",", "").replace("_", ""):
                fail(
                    f"step() with {what} raises {error!r}, which does not name the limit, {limit}.",
                    "Say it in the message: self.action_space(agent).why_not(text) does, for a UnicodeText.",
                )
        else:
            fail(f"step() accepted {what} ({name!r}).", mend)
        if (now := picture(env)) != before:
            fail(
                f"step() with {what} raised, but changed the environment before ({difference(before, now)}).",
                "Check first, then change.",
            )
    fresh = fresh_copy(env)
    reset(fresh)
    if (mine := stepped(env, good, 1)) != (its := stepped(fresh, good, 1)):
        fail(
            f"after refused steps the episode goes on differently: {difference(mine, its)}.",
            "Check the actions first, then change.",
        )


def check_step_without_episode(env: ParallelEnv) -> None:
    """A step after the end raises an error that says what to do."""
    for _ in play(env, max_steps=MAX_HORIZON):
        pass
    if env.agents:
        return  # it does not end, which `check_horizon` says
    try:
        env.step({agent: env.action_space(agent).sample() for agent in env.possible_agents})
    except Exception as error:  # noqa: BLE001 -- which exception it is matters less than what it says
        if "reset" not in str(error):
            fail(f"step() after the episode ended raises {error!r}, which does not say what to do.", _RESET_FIRST)
    else:
        fail("step() after the episode ended did not raise.", _RESET_FIRST)

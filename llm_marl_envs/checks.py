"""``check_env``: does an environment keep the contract?

It runs PettingZoo's own tests and then what they miss. ``strict=True`` demands our whole contract (DESIGN: the
environment contract); ``strict=False``, for third parties, demands PettingZoo's rules and returns our additions as
notes. Every failure says what to mend.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from .checking import (
    MAX_STEPS,
    SEED,
    ActionPlan,
    WithDtype,
    difference,
    fresh_copy,
    is_finite,
    picture,
    play,
    record,
    same,
    short,
    step,
)
from .errors import CheckFailedError

_MAX_HORIZON = 1_000
_STRANGER = "nobody-of-that-name"
_DICTS = ("observations", "rewards", "terminations", "truncations", "infos")

Check = Callable[[ParallelEnv], None]


def check_env(env: ParallelEnv, strict: bool = True) -> list[str]:
    """Check a parallel environment.

    The environment is reset and stepped with sampled actions; hand in one that you can spare.

    Args:
        env: an instance. Fresh copies of it are made by pickling; of one that cannot be pickled, by deep copying.
        strict: whether our additions to PettingZoo's rules are demanded, or returned as notes.

    Returns:
        Notes: what a strict check would have demanded. Empty if strict.

    Raises:
        CheckFailedError: the first rule that is broken, with what to mend.
    """
    if not isinstance(env, ParallelEnv):
        raise CheckFailedError(
            f"{type(env).__name__} is not a pettingzoo.ParallelEnv. Derive from it; an AEC environment is turned into "
            "one by pettingzoo.utils.conversions.aec_to_parallel."
        )
    notes: list[str] = []
    for check in _PETTINGZOO_RULES:
        _guarded(check, env)
    for check in _OUR_RULES:
        try:
            _guarded(check, env)
        except CheckFailedError as failure:
            if strict:
                raise
            notes.append(str(failure))
    return notes


def _guarded(check: Check, env: ParallelEnv) -> None:
    """Run one check; what the environment itself raises on the way is a failure that says where."""
    try:
        check(env)
    except CheckFailedError:
        raise
    except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
        raise CheckFailedError(
            f"{check.__name__}: the environment raised {type(error).__name__}: {error}. Reset, state() and a step with "
            "sampled actions must not raise."
        ) from error


# -- PettingZoo's rules -----------------------------------------------------------------------------------------------


def check_parallel_api(env: ParallelEnv) -> None:
    """PettingZoo's ``parallel_api_test``; plus that every observation and action lies in its space."""
    from pettingzoo.test import parallel_api_test  # here, since it imports pytest where that is installed

    # On a copy, since it sets `max_cycles`.
    _run("parallel_api_test", lambda: parallel_api_test(fresh_copy(env), num_cycles=MAX_STEPS))
    for _, observations, actions, _ in play(env, SEED):
        for agent, observation in observations.items():
            if agent in env.possible_agents and not env.observation_space(agent).contains(observation):
                _fail(
                    f"the observation of agent {agent!r} lies outside its observation_space "
                    f"{env.observation_space(agent)!r}: {short(observation)}. Widen the space, or clip the text."
                )
        for agent, action in (actions or {}).items():
            if not env.action_space(agent).contains(action):
                _fail(f"action_space({agent!r}).sample() gives {short(action)}, which the space does not contain.")


def check_last_step(env: ParallelEnv) -> None:
    """All five dicts hold every agent that acted, at the last step too; rewards are finite; ended agents leave."""
    for acted, _, _, results in play(env, SEED):
        if results is None:
            continue
        for name, values in zip(_DICTS, results, strict=True):
            if missing := set(acted) - set(values):
                _fail(
                    f"step() returned no {name} for {sorted(missing)}, who acted in that step. Return all five dicts "
                    "for every agent that acted, at the last step too."
                )
        for agent in acted:
            if not is_finite(results[1][agent]):
                _fail(f"the reward of agent {agent!r} is {short(results[1][agent])}; it must be a finite number.")
        ended = {a for a in acted if results[2][a] or results[3][a]}
        if ended & set(env.agents):
            _fail(f"agents {sorted(ended & set(env.agents))} ended and are still in env.agents. Remove them.")


def check_aec(env: ParallelEnv) -> None:
    """PettingZoo's ``api_test`` through ``parallel_to_aec``."""
    from pettingzoo.test import api_test

    copy_: ParallelEnv = WithDtype(fresh_copy(env))
    _run("api_test (through parallel_to_aec)", lambda: api_test(parallel_to_aec(copy_), num_cycles=MAX_STEPS))


def check_determinism(env: ParallelEnv) -> None:
    """The same seed gives the same episode on two copies, to the last step, whatever they played before."""
    one, two = fresh_copy(env), fresh_copy(env)
    for seed in range(SEED, SEED + 4):
        first = record(one, seed)
        two.reset()  # or a copy that ignores the seed would stay in step, since it has a copy of the generator
        second = record(two, seed)
        for number, (mine, its) in enumerate(zip(first, second, strict=False)):
            if mine != its:
                where = "reset(seed=...)" if number == 0 else f"step {number}"
                _fail(
                    "two copies reset with the same seed and given the same actions differ at "
                    f"{where}: {difference(mine, its)}. Draw all randomness from self.np_random, and seed it in "
                    "reset(seed=...)."
                )
        if len(first) != len(second):
            _fail(f"two copies with the same seed ended after {len(first) - 1} and {len(second) - 1} steps.")


# -- our additions ----------------------------------------------------------------------------------------------------


def check_pickling(env: ParallelEnv) -> None:
    try:
        pickle.loads(pickle.dumps(env))
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError) as error:
        _fail(
            f"it cannot be pickled ({error}), so it cannot go to another process. Keep lambdas, locks, files and "
            "generators out of its attributes, or define __getstate__."
        )


def check_horizon(env: ParallelEnv) -> None:
    """An episode ends; until then all agents stay in ``agents``."""
    for acted, _, _, _ in play(env, SEED, _MAX_HORIZON):
        if env.agents and list(env.agents) != list(env.possible_agents):
            _fail(
                f"env.agents is {env.agents} after a step of {acted}. All agents stay in env.agents, in the order of "
                "possible_agents, until the episode ends; one that is not asked has infos[agent]['acts'] = 0."
            )
    if env.agents:
        _fail(f"the episode did not end within {_MAX_HORIZON:,} steps. Give it a finite horizon.")


def check_text_spaces(env: ParallelEnv) -> None:
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            space = getattr(env, name)(agent)
            if not isinstance(space, spaces.Text):
                _fail(f"{name}({agent!r}) is {space!r}; a language model needs text: use UnicodeText(65_536).")
    for _, observations, _, _ in play(env, SEED):
        for agent, observation in observations.items():
            if not hasattr(observation, "dtype"):
                _fail(
                    f"the observation of agent {agent!r} is a plain str, and PettingZoo's api_test reads its dtype. "
                    "Return TextObservation(text), a str that has one."
                )


def check_state(env: ParallelEnv) -> None:
    """PettingZoo's ``state_test``; and that the state keeps to its space through an episode."""
    from pettingzoo.test.state_test import state_test

    if not hasattr(env, "state_space"):
        _fail("there is no state_space. A centralised critic reads state(): define both (UnicodeText holds any text).")
    _run("state_test", lambda: state_test(parallel_to_aec(fresh_copy(env)), fresh_copy(env), num_cycles=MAX_STEPS))
    for _ in play(env, SEED):
        if not env.state_space.contains(env.state()):
            _fail(f"state() left its state_space {env.state_space!r}: {short(env.state())}.")


def check_terms(env: ParallelEnv) -> None:
    """``infos[agent]["terms"]`` names the parts of the reward."""
    for acted, _, _, results in play(env, SEED):
        for agent in acted if results else ():
            terms = results[4][agent].get("terms")
            if not isinstance(terms, Mapping) or not all(map(is_finite, terms.values())):
                _fail(
                    f"infos[{agent!r}]['terms'] is {short(terms)}. After a step it holds the named terms of the "
                    "reward, a dict of finite numbers."
                )


def check_infos(env: ParallelEnv) -> None:
    """Infos at reset are empty or numeric; ``acts`` is 0 or 1; ``np_random`` is there."""
    _, infos = env.reset(seed=SEED)
    for agent, info in infos.items():
        for key, value in info.items():
            if not isinstance(value, (int, float, np.number, np.ndarray)):
                _fail(
                    f"infos[{agent!r}][{key!r}] at reset is {short(value)}. At reset infos must be empty or numeric, "
                    "since wrappers of other libraries turn them into tensors."
                )
    if not hasattr(env, "np_random"):
        _fail("there is no np_random. Expose the environment's random generator under that name.")
    for _, _, _, results in play(env, SEED):
        for agent, info in (results[4] if results else infos).items():
            if info.get("acts", 1) not in (0, 1):
                _fail(f"infos[{agent!r}]['acts'] is {info['acts']!r}; it must be 0 (not asked next) or 1.")


def check_ignored_actions(env: ParallelEnv) -> None:
    """What an agent with ``acts`` 0 hands in makes no difference."""
    episodes: list[list[Any]] = []
    for other in (False, True):
        copy_ = fresh_copy(env)
        observations, infos = copy_.reset(seed=SEED)
        plan, episode = ActionPlan(copy_), []
        for _ in range(MAX_STEPS):
            if not copy_.agents:
                break
            actions = plan.next(observations)
            for agent in copy_.agents:
                if other and not infos.get(agent, {}).get("acts", 1):
                    # From a copy of the space, so that the action of its next turn stays what it was.
                    actions[agent] = copy.deepcopy(copy_.action_space(agent)).sample()
            episode.append(step(copy_, actions))
            observations, *_, infos = episode[-1].value
        episodes.append(episode)
    for number, (mine, its) in enumerate(zip(*episodes, strict=False), start=1):
        if mine != its:
            _fail(
                f"step {number} depends on the action of an agent whose infos[agent]['acts'] was 0: "
                f"{difference(mine, its)}. Ignore what it hands in, or ask it (acts = 1)."
            )


def check_clone(env: ParallelEnv) -> None:
    """A clone taken in mid-episode goes on like the original, and neither moves the other."""
    if "clone" not in {
        name for cls in type(env).__mro__ if cls.__module__ != "pettingzoo.utils.env" for name in vars(cls)
    }:
        _fail(
            "its class defines no clone(). Tree rollouts copy an environment in mid-episode: return an independent "
            "copy at the same point. (A wrapper must define its own: an inherited one gives the unwrapped environment.)"
        )
    for cut in (0, 1):
        env.reset(seed=SEED)
        plan = ActionPlan(env)
        for _ in range(cut):
            if not env.agents:
                return
            env.step(plan.next())
        twin = env.clone()
        if twin is env:
            _fail("clone() returned the environment itself. Return an independent copy.")
        if type(twin) is not type(env):
            _fail(
                f"clone() returned a {type(twin).__name__}, not a {type(env).__name__}: a wrapper must wrap the clone."
            )
        for _ in range(MAX_STEPS):
            if not env.agents:
                break
            actions = plan.next()
            before = picture(twin)
            mine = step(env, actions)
            if picture(twin) != before:
                _fail("stepping the original changed its clone: copy what changes instead of sharing it.")
            before = picture(env)
            its = step(twin, actions)
            if picture(env) != before:
                _fail("stepping a clone changed the original: copy what changes instead of sharing it.")
            if mine != its:
                _fail(f"a clone taken after {cut} steps goes on differently: {difference(mine, its)}.")
    env.reset(seed=SEED)
    try:
        env.clone(seed=SEED)
    except TypeError as error:
        _fail(f"clone(seed=...) raised {error}. It gives the copy fresh randomness.")


def check_bad_actions(env: ParallelEnv) -> None:
    """A bad step raises an error that names the agent (and the limit), and changes nothing."""
    _, infos = env.reset(seed=SEED)
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
        try:
            env.step(actions)
        except Exception as error:  # noqa: BLE001 -- which exception it is matters less than what it says
            named = _STRANGER if "unknown" in what else str(agent)
            if named not in str(error):
                _fail(f"step() with {what} raises {error!r}, which does not name the agent {named!r}.")
            if "limit" in what and str(space.max_length) not in str(error).replace(",", "").replace("_", ""):
                _fail(f"step() with {what} raises {error!r}, which does not name the limit, {space.max_length:,}.")
        else:
            _fail(
                f"step() accepted {what}. Raise an error that names the agent (InvalidActionError is there for it), "
                "before anything changes."
            )
        if picture(env) != before:
            _fail(f"step() with {what} raised, but changed the environment before. Check first, then change.")
    fresh = fresh_copy(env)
    fresh.reset(seed=SEED)
    if (mine := step(env, good)) != (its := step(fresh, good)):
        _fail(f"after refused steps the episode goes on differently: {difference(mine, its)}.")


def check_step_without_episode(env: ParallelEnv) -> None:
    for _ in play(env, SEED, _MAX_HORIZON):
        pass
    try:
        env.step({agent: env.action_space(agent).sample() for agent in env.possible_agents})
    except Exception as error:  # noqa: BLE001 -- which exception it is matters less than what it says
        if "reset" not in str(error):
            _fail(f"step() after the episode ended raises {error!r}. Raise an error that says to call reset().")
    else:
        _fail("step() after the episode ended did not raise. Raise an error that says to call reset().")


def check_global_random_state(env: ParallelEnv) -> None:
    """An episode neither reads nor moves the global random generators."""
    saved = random.getstate(), np.random.get_state()
    episodes = []
    try:
        # Two states that no environment sets by itself, so that one which seeds the generators is seen too.
        for global_seed in (20_110, 41_713):
            random.seed(global_seed)
            np.random.seed(global_seed)
            before = random.getstate(), np.random.get_state()
            episodes.append(record(fresh_copy(env), SEED))
            if random.getstate() != before[0]:
                _fail("it draws from, or seeds, Python's global `random`. Draw from self.np_random.")
            if not same(np.random.get_state(), before[1]):
                _fail("it draws from, or seeds, NumPy's global generator (np.random.*). Draw from self.np_random.")
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])
    if episodes[0] != episodes[1]:
        _fail("its episodes depend on the global random state although reset got a seed. Draw from self.np_random.")


_PETTINGZOO_RULES: tuple[Check, ...] = (check_parallel_api, check_last_step, check_aec, check_determinism)
_OUR_RULES: tuple[Check, ...] = (
    check_text_spaces,
    check_pickling,
    check_horizon,
    check_terms,
    check_infos,
    check_ignored_actions,
    check_state,
    check_clone,
    check_bad_actions,
    check_step_without_episode,
    check_global_random_state,
)


# -- parts ------------------------------------------------------------------------------------------------------------


def _fail(message: str) -> NoReturn:
    raise CheckFailedError(message[0].upper() + message[1:])


def _run(name: str, test: Callable[[], Any]) -> None:
    """Run a test of PettingZoo, whose warnings are about arrays and whose failures are assertions."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            test()
    except CheckFailedError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever the environment raises inside PettingZoo's test is its failure
        raise CheckFailedError(f"PettingZoo's {name} failed: {type(error).__name__}: {error}") from error

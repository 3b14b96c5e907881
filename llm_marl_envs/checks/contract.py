"""Our additions to PettingZoo's rules: text, a finite horizon, terms of the reward, a state for critics, pickling."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from .comparing import is_finite
from .findings import fail, raised, short
from .playing import MAX_HORIZON, fresh_copy, play

_STATE = (
    "In __init__: self.state_space = UnicodeText(1_000_000); and define state(self), which returns the task and all "
    "observations and actions so far as one text, and never hidden answers."
)


def check_text_spaces(env: ParallelEnv) -> None:
    """Observations and actions are text."""
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            space = getattr(env, name)(agent)
            if not isinstance(space, spaces.Text):
                fail(
                    f"{name}({agent!r}) is {space!r}; a language model reads and writes text.",
                    "Use UnicodeText(65_536) of llm_marl_envs. (Numbers are meant, as for TokenView? Then check it "
                    "with strict=False, or --lenient.)",
                )
    for played in play(env):
        for agent, observation in played.observations.items():
            if not hasattr(observation, "dtype"):
                fail(
                    f"the observation of agent {agent!r} is a plain str, and PettingZoo's api_test reads its dtype.",
                    "Return TextObservation(text) of llm_marl_envs, a str that has one.",
                )


def check_pickling(env: ParallelEnv) -> None:
    """It can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(env))
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError) as error:
        fail(
            f"it cannot be pickled ({error}), so it cannot go to another process.",
            "Keep lambdas, locks, open files and generators out of its attributes, or define __getstate__.",
        )


def check_horizon(env: ParallelEnv) -> None:
    """An episode ends; until then all agents stay in ``agents``."""
    for played in play(env, max_steps=MAX_HORIZON):
        if env.agents and list(env.agents) != list(env.possible_agents):
            fail(
                f"env.agents is {env.agents} after {played.where}, in which {played.acted} acted.",
                "Keep all agents in env.agents, in the order of possible_agents, until the episode ends; one that is "
                "not asked next has infos[agent]['acts'] = 0.",
            )
    if env.agents:
        fail(
            f"the episode did not end within {MAX_HORIZON:,} steps.",
            "Give it a finite horizon: after num_turns steps set every terminations[agent] to True and self.agents to "
            "[].",
        )


def check_state(env: ParallelEnv) -> None:
    """``state()`` shows a centralised critic how the episode goes on, and keeps to its space."""
    if not hasattr(env, "state_space"):
        fail("there is no state_space, so a centralised critic cannot read state().", _STATE)
    env, before = fresh_copy(env), None
    for played in play(env):
        try:
            state = env.state()
        except NotImplementedError:
            fail("there is no state(), which a centralised critic reads.", _STATE)
        except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
            raise raised(f"state() at {played.where}", error) from error
        if not env.state_space.contains(state):
            fail(
                f"state() left its state_space {env.state_space!r} at {played.where}: {short(state)}.",
                "Widen the space by what the longest episode needs, or clip the text.",
            )
        if isinstance(state, str) and state == before and env.agents:
            fail(
                f"state() hides what happened in {played.where}: it is the same as before that step.",
                "Let it hold the task, and every observation and action of the episode so far.",
            )
        before = state


def check_terms(env: ParallelEnv) -> None:
    """``infos[agent]["terms"]`` names the parts of the reward."""
    for played in play(env):
        for agent in played.acted if played.results else ():
            terms = played.infos[agent].get("terms")
            if not isinstance(terms, Mapping) or not all(map(is_finite, terms.values())):
                fail(
                    f"infos[{agent!r}]['terms'] is {short(terms)} at {played.where}, so nobody can see what the reward "
                    "is made of.",
                    "After a step let it hold the named terms of the reward, such as {'length': 0.5, 'style': 1.0}: "
                    "finite numbers.",
                )


def check_infos(env: ParallelEnv) -> None:
    """Infos at reset are empty or numeric; ``acts`` is 0 or 1; ``np_random`` is there."""
    for played in play(env):
        for agent, info in played.infos.items():
            for key, value in info.items() if played.number == 0 else ():
                if not isinstance(value, (int, float, np.number, np.ndarray)):
                    fail(
                        f"infos[{agent!r}][{key!r}] at reset is {short(value)}, and wrappers of other libraries turn "
                        "infos of a reset into tensors.",
                        "At reset they must be empty or numeric; text belongs in the observation.",
                    )
            if info.get("acts", 1) not in (0, 1):
                fail(
                    f"infos[{agent!r}]['acts'] is {info['acts']!r} at {played.where}.",
                    "Let it be 0 (the agent is not asked next) or 1 (it is; the same as leaving it out).",
                )


def check_np_random(env: ParallelEnv) -> None:
    """The random generator can be seen."""
    if not hasattr(env, "np_random"):
        fail(
            "there is no np_random, so nobody can see or copy the environment's random generator.",
            "Expose the numpy.random.Generator that it draws from under that name.",
        )

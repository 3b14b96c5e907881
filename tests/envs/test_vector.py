"""Copies stepped together."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv
from toys import NOTHING, SOLVED, LettersTask, endless, toy

from llm_marl_envs import ParallelVectorEnv
from llm_marl_envs.errors import ConfigError, InvalidActionError
from llm_marl_envs.vector import step_together


def test_it_does_what_single_environments_do():
    vector, single = ParallelVectorEnv(lambda: toy(num_turns=3), 3), [toy(num_turns=3) for _ in range(3)]
    assert vector.num_envs == 3 and vector.possible_agents == ["left", "right"]
    assert vector.action_space("left") == single[0].action_space("left")
    assert vector.observation_space("left") == single[0].observation_space("left")
    observations, infos = vector.reset(seed=[4, 5, 6])
    assert list(zip(observations, infos, strict=True)) == [
        env.reset(seed=s) for env, s in zip(single, (4, 5, 6), strict=True)
    ]
    actions = [NOTHING, {"left": "L", "right": "R"}, SOLVED]
    assert list(zip(*vector.step(actions), strict=True)) == [e.step(a) for e, a in zip(single, actions, strict=True)]
    vector.close()


def test_an_ended_copy_stays_ended_until_it_is_reset():
    vector = ParallelVectorEnv(lambda: toy(num_turns=3), 2)
    vector.reset(seed=0)
    vector.step([SOLVED, NOTHING])
    assert vector.running == [1]
    with pytest.raises(ConfigError, match=r"Copy 0 has ended.*reset\(indices=\[0\]\)"):
        vector.step([NOTHING, NOTHING])
    observations, rewards, terminations, truncations, infos = vector.step([None, NOTHING])
    assert [r[0] for r in (observations, rewards, terminations, truncations, infos)] == [{}] * 5
    assert rewards[1]["left"] == -3.0
    observations, _ = vector.reset(seed=7, indices=[0])
    assert len(observations) == 1 and observations[0] == toy().reset(seed=7)[0] and vector.running == [0, 1]
    assert len(vector.envs[1].turns) == 2


def test_seeds_and_options():
    vector = ParallelVectorEnv(toy, 3)
    assert vector.reset(seed=10)[0] == [toy().reset(seed=10 + i)[0] for i in range(3)]
    assert vector.reset(seed=10, indices=[2])[0] == [toy().reset(seed=12)[0]]
    assert [o["left"] for o in vector.reset(options={"index": 2})[0]] == ["left: text 2"] * 3
    each = vector.reset(options=[{"index": i} for i in (3, 1, 0)])[0]
    assert [o["left"] for o in each] == ["left: text 3", "left: text 1", "left: text 0"]
    with pytest.raises(ConfigError, match="2 values of seed for 3 copies"):
        vector.reset(seed=[1, 2])


def test_wrong_input_is_refused():
    for number in (0, -1, 1.5):
        with pytest.raises(ConfigError, match="num_envs"):
            ParallelVectorEnv(toy, number)
    vector = ParallelVectorEnv(toy, 2)
    vector.reset(seed=0)
    with pytest.raises(ConfigError, match="takes 2 actions.*not 1"):
        vector.step([NOTHING])
    with pytest.raises(InvalidActionError, match="'left'"):
        vector.step([NOTHING, None])


class SlowTask(LettersTask):
    together = 0
    most = 0
    lock = threading.Lock()

    def score(self, row, responses):
        with self.lock:
            type(self).together += 1
            type(self).most = max(self.most, self.together)
        time.sleep(0.05)
        with self.lock:
            type(self).together -= 1
        if responses["left"] == "fail":
            raise OSError("worker died")
        return super().score(row, responses)


def test_scores_run_concurrently_and_one_failure_waits_for_the_others():
    vector = ParallelVectorEnv(lambda: toy(SlowTask(), num_turns=2), 4)
    vector.reset(seed=0)
    vector.step([NOTHING] * 4)
    assert SlowTask.most == 4
    with pytest.raises(OSError, match="worker died"):
        vector.step([{"left": "fail", "right": ""}, NOTHING, NOTHING, NOTHING])
    assert SlowTask.together == 0
    assert vector.running == [0]  # the failed step changed nothing, and the other three have ended
    vector.close()


class ThreadBound(ParallelEnv):
    """A third party's environment, which may not like other threads."""

    metadata = {"name": "bound"}
    possible_agents = ["a"]

    def reset(self, seed=None, options=None):
        self.agents, self.home = ["a"], threading.get_ident()
        return {"a": np.int64(0)}, {"a": {}}

    def step(self, actions):
        assert threading.get_ident() == self.home
        self.agents = []
        return {"a": np.int64(0)}, {"a": 1.0}, {"a": True}, {"a": False}, {"a": {}}

    def observation_space(self, agent):
        return Discrete(2)

    action_space = observation_space


def test_environments_of_others_are_stepped_in_the_callers_thread():
    vector = ParallelVectorEnv(ThreadBound, 3)
    vector.reset()
    assert vector.step([{"a": 0}] * 3)[1] == [{"a": 1.0}] * 3


def test_stepping_without_an_executor():
    envs = [endless() for _ in range(2)]
    for env in envs:
        env.reset(seed=0)
    results = step_together(envs, [NOTHING, SOLVED])
    assert [r[1]["left"] for r in results] == [0.0, 3.0]

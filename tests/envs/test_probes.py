"""The probes' optimal and random returns, by enumeration of all joint answers."""

from __future__ import annotations

from itertools import product
from statistics import mean

import pytest

from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError, InvalidActionError
from llm_marl_envs.probes import SYMBOLS, own_symbol

PROBES = ["probe/own-word-v0", "probe/same-word-v0", "probe/two-turn-v0"]


def joint_answers(env):
    return [
        dict(zip(env.possible_agents, answer, strict=True))
        for answer in product(SYMBOLS, repeat=len(env.possible_agents))
    ]


def returns(env, answers):
    """Return of every sequence of joint answers: a list of (sequence, return)."""
    results = []
    for sequence in product(answers, repeat=env.num_turns):
        env.reset(seed=0)
        rewards = [env.step(answer)[1] for answer in sequence]
        assert env.agents == []
        assert all(len(set(reward.values())) == 1 for reward in rewards)
        results.append((sequence, sum(reward["agent_1"] for reward in rewards)))
    return results


@pytest.mark.parametrize("num_agents", [1, 2, 3])
@pytest.mark.parametrize("env_id", PROBES)
def test_optimal_and_random_return(env_id, num_agents):
    env = make(env_id, num_agents=num_agents)
    values = [value for _, value in returns(env, joint_answers(env))]
    assert max(values) == env.task.optimal_return == 1.0
    assert mean(values) == pytest.approx(env.task.random_return, abs=1e-12)
    assert min(values) == (1.0 if env_id == "probe/same-word-v0" and num_agents == 1 else 0.0)


def test_the_stated_numbers_for_two_agents():
    assert [make(env_id).task.random_return for env_id in PROBES] == [1 / 4, 1 / 4, 1 / 16]


def test_two_turn_cannot_be_won_from_the_second_turn_alone():
    """With gamma = 0 the first answers stay random: the best that is left is 1/4 of the optimum."""
    env = make("probe/two-turn-v0")
    answers = joint_answers(env)
    best = max(mean(value for sequence, value in returns(env, answers) if sequence[1] == second) for second in answers)
    assert best == 1 / 4
    env.reset(seed=0)
    assert all(reward == 0.0 for answer in answers for reward in env.clone().step(answer)[1].values())


def test_what_is_right_on_one_turn_is_wrong_on_the_next():
    for position in range(16):
        assert own_symbol(position, 0) in SYMBOLS and own_symbol(position, 0) != own_symbol(position, 1)
    assert {own_symbol(position, 0) for position in range(4)} == set(SYMBOLS)


def test_own_word_pays_each_agent_its_own_part():
    env = make("probe/own-word-v0", reward_mode="individual")
    env.reset(seed=0)
    assert env.step({"agent_1": own_symbol(0, 0), "agent_2": "A"})[1] == {"agent_1": 0.5, "agent_2": 0.0}


@pytest.mark.parametrize("env_id", PROBES)
def test_other_symbols_are_wrong_and_longer_texts_refused(env_id):
    env = make(env_id)
    for wrong in ("", " ", "x", "a", "🙂"):
        env.reset(seed=0)
        while env.agents:
            _, rewards, _, _, infos = env.step(dict.fromkeys(env.agents, wrong))
            assert rewards == {"agent_1": 0.0, "agent_2": 0.0} and infos["agent_1"]["terms"] == {"right": 0.0}
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match="'agent_1'.*limit is 1"):
        env.step({"agent_1": "AB", "agent_2": "A"})


def test_the_prompts_do_not_tell_the_rule_and_agents_know_their_number():
    for env_id in PROBES:
        one, two = make(env_id), make(env_id)
        assert one.reset(seed=0)[0] == two.reset(seed=1)[0]
        observations = one.reset()[0]
        assert observations["agent_1"] != observations["agent_2"]
        assert all("A B C D" in o and "same" not in o and "own" not in o for o in observations.values())


def test_bad_arguments_are_refused():
    for number in (0, 17, 1.5, "2"):
        with pytest.raises(ConfigError, match="num_agents"):
            make("probe/own-word-v0", num_agents=number)
    with pytest.raises(ConfigError, match="exactly 2 turns"):
        make("probe/two-turn-v0", num_turns=3)

"""Advantages, worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_marl_baselines.advantages import group_advantages, joint_rewards, response_returns, step_returns
from llm_marl_envs.errors import ConfigError


def test_returns_of_a_tree():
    # Two first steps; each leads to two second steps.
    rewards = np.array([1.0, 2.0, 10.0, 20.0, 30.0, 50.0])
    parent = np.array([-1, -1, 0, 0, 1, 1])
    assert step_returns(rewards, parent, 1.0).tolist() == [1 + 15, 2 + 40, 10, 20, 30, 50]
    assert step_returns(rewards, parent, 0.5).tolist() == [1 + 7.5, 2 + 20, 10, 20, 30, 50]
    assert step_returns(rewards, parent, 0.0).tolist() == rewards.tolist()


def test_returns_of_chains_are_discounted_sums():
    # One chain of three turns: R_0 = r0 + g r1 + g^2 r2.
    returns = step_returns(np.array([1.0, 2.0, 4.0]), np.array([-1, 0, 1]), 0.5)
    assert returns.tolist() == [1 + 1 + 1, 2 + 2, 4]


def test_a_branch_that_ended_early_keeps_its_own_return():
    # Step 0 solved the task and has no children; step 1 goes on.
    returns = step_returns(np.array([0.0, -1.0, -2.0, 0.0]), np.array([-1, -1, 1, 1]), 1.0)
    assert returns.tolist() == [0.0, -1.0 + (-2.0 + 0.0) / 2, -2.0, 0.0]


def test_returns_keep_the_agents_apart():
    rewards = np.array([[1.0, 5.0], [2.0, 7.0]])
    assert step_returns(rewards, np.array([-1, 0]), 1.0).tolist() == [[3.0, 12.0], [2.0, 7.0]]


def test_a_parent_must_stand_before_its_child():
    with pytest.raises(ConfigError, match="stands before its parent"):
        step_returns(np.zeros(2), np.array([1, -1]), 1.0)


def test_aligned_responses_have_their_joint_actions_return():
    returns = np.array([[3.0, 3.0], [7.0, 7.0]])
    assert response_returns(returns, np.array([[0, 2], [1, 3]]), 4).tolist() == [3.0, 7.0, 3.0, 7.0]


def test_cross_responses_have_the_mean_over_the_joint_actions_that_contain_them():
    # Agent 0 has responses 0, 1; agent 1 has 2, 3. Joint returns: (0,2)=1 (0,3)=2 (1,2)=3 (1,3)=6.
    returns = np.repeat([[1.0], [2.0], [3.0], [6.0]], 2, axis=1)
    steps = np.array([[0, 2], [0, 3], [1, 2], [1, 3]])
    values = response_returns(returns, steps, 4)
    assert values.tolist() == [1.5, 4.5, 2.0, 4.0]
    assert group_advantages(values, np.array([0, 0, 1, 1])).tolist() == [-1.5, 1.5, -1.0, 1.0]


def test_an_agent_that_is_not_asked_contributes_nothing():
    returns = np.array([[3.0, 100.0], [5.0, 100.0]])
    assert response_returns(returns, np.array([[0, -1], [1, -1]]), 2).tolist() == [3.0, 5.0]


def test_advantages_are_centred_in_each_group_and_not_divided():
    adv = group_advantages(np.array([1.0, 2.0, 6.0, 10.0, 10.0]), np.array([4, 4, 4, 9, 9]))
    assert adv.tolist() == [-2.0, -1.0, 3.0, 0.0, 0.0]


def test_standardized_advantages_divide_by_std_plus_eps():
    adv = group_advantages(np.array([1.0, 3.0]), np.zeros(2), standardize=True, eps=0.25)
    assert adv.tolist() == pytest.approx([-1 / 1.25, 1 / 1.25])


def test_a_tiny_spread_stays_a_tiny_advantage():
    adv = group_advantages(np.array([1.0, 1.0 + 1e-4]), np.zeros(2), standardize=True, eps=0.1)
    assert np.abs(adv).max() < 1e-3


@given(st.lists(st.sampled_from([0.1, 1 / 3, 2.98, 1e9]), min_size=1, max_size=4), st.integers(2, 9))
def test_a_group_without_spread_gives_exactly_zero(values, size):
    returns = np.repeat(values, size)
    group = np.repeat(np.arange(len(values)), size)
    for standardize in (False, True):
        assert (group_advantages(returns, group, standardize=standardize) == 0).all()


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20), st.floats(-50, 50))
def test_a_constant_added_to_all_returns_changes_no_advantage(returns, shift):
    group = np.arange(len(returns)) % 2
    before = group_advantages(np.array(returns), group)
    after = group_advantages(np.array(returns) + shift, group)
    assert np.allclose(before, after, atol=1e-9)


def test_joint_rewards():
    same, different = np.array([[1.0, 1.0]]), np.array([[1.0, 1.0], [1.0, 2.0]])
    here = np.ones((2, 2), dtype=bool)
    assert joint_rewards(same, here[:1], None).tolist() == [[1.0, 1.0]]
    assert joint_rewards(different, here, "sum").tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert joint_rewards(different, here, "mean").tolist() == [[1.0, 1.0], [1.5, 1.5]]
    with pytest.raises(ConfigError, match=r"step 1 .*\[1.0, 2.0\].*joint_reward"):
        joint_rewards(different, here, None)
    with pytest.raises(ConfigError, match="sum, mean"):
        joint_rewards(same, here[:1], "max")


def test_agents_that_have_left_do_not_count_in_the_joint_reward():
    rewards, here = np.array([[0.0, 2.0, 2.0]]), np.array([[False, True, True]])
    assert joint_rewards(rewards, here, None).tolist() == [[2.0] * 3]
    assert joint_rewards(rewards, here, "mean").tolist() == [[2.0] * 3]
    assert joint_rewards(rewards, here, "sum").tolist() == [[4.0] * 3]

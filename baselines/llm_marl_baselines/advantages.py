"""From rewards to advantages: pure functions on NumPy arrays.

Letters as in :mod:`~llm_marl_baselines.batch`: M nodes, B responses, K steps (joint actions), N agents.
"""

from __future__ import annotations

import numpy as np

from llm_marl_envs.errors import ConfigError


def step_returns(rewards: np.ndarray, parent: np.ndarray, gamma: float) -> np.ndarray:
    """Return of every step: its reward plus gamma times the mean of its children's returns.

    In a chain, where a step has at most one child, this is R_t = sum over k >= t of gamma^(k-t) r_k.

    Args:
        rewards: (K, N) or (K,).
        parent: (K,) the step before each step, -1 for first steps. A parent stands before its children.
        gamma: discount in [0, 1].

    Returns:
        the shape of ``rewards``.
    """
    returns = np.array(rewards, dtype=np.float64)
    children = np.bincount(parent[parent >= 0], minlength=len(parent))
    for k in range(len(parent) - 1, -1, -1):
        if parent[k] >= 0:
            if parent[k] >= k:
                raise ConfigError(f"Step {k} stands before its parent {parent[k]}.")
            returns[parent[k]] += gamma * returns[k] / children[parent[k]]
    return returns


def response_returns(returns: np.ndarray, step_response: np.ndarray, num_responses: int) -> np.ndarray:
    """Return of every response: the mean over the joint actions that contain it.

    Args:
        returns: (K, N) returns of steps, per agent.
        step_response: (K, N) the response that each agent contributed, -1 where it was not asked.
        num_responses: B.

    Returns:
        (B,)
    """
    used = step_response >= 0
    total = np.bincount(step_response[used], weights=returns[used], minlength=num_responses)
    count = np.bincount(step_response[used], minlength=num_responses)
    return total / np.maximum(count, 1)


def group_advantages(
    returns: np.ndarray, group: np.ndarray, *, standardize: bool = False, eps: float = 1e-4
) -> np.ndarray:
    """Return minus the mean of its group; optionally divided by the group's standard deviation plus ``eps``.

    Args:
        returns: (B,)
        group: (B,) any integers; equal ones belong together.
        standardize: divide by (std + eps), std over the group without Bessel's correction.
        eps: keeps a tiny spread from becoming an advantage of +-1.

    Returns:
        (B,); exactly 0 for a group without spread.
    """
    _, index = np.unique(group, return_inverse=True)
    count = np.bincount(index)
    mean = np.bincount(index, weights=returns) / count
    # A mean of equal numbers can be off by one rounding: such a group has no spread, and must give exactly 0.
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    np.minimum.at(low, index, returns)
    np.maximum.at(high, index, returns)
    advantages = np.where((low == high)[index], 0.0, returns - mean[index])
    if standardize:
        std = np.sqrt(np.bincount(index, weights=advantages**2) / count)
        advantages = advantages / (std[index] + eps)
    return advantages


def joint_rewards(rewards: np.ndarray, present: np.ndarray, how: str | None) -> np.ndarray:
    """(K, N) rewards in which all agents get the same number.

    Args:
        rewards: (K, N)
        present: (K, N) bool, agents that had not left before the step; the others do not count.
        how: None demands that the agents' rewards are equal already; ``"sum"`` and ``"mean"`` join them over agents.

    Raises:
        ConfigError: the rewards differ and ``how`` is None.
    """
    if how == "sum":
        joined = (rewards * present).sum(axis=1, keepdims=True)
    elif how == "mean":
        joined = np.average(rewards, axis=1, weights=present, keepdims=True)
    elif how is None:
        joined = np.take_along_axis(rewards, present.argmax(axis=1)[:, None], axis=1)
        if different := np.flatnonzero(((rewards != joined) & present).any(axis=1)).tolist():
            raise ConfigError(
                f"This algorithm shares one joint reward, and in step {different[0]} the agents' rewards differ: "
                f"{rewards[different[0]].tolist()}. Set algorithm.joint_reward to sum or mean, or make the environment "
                "pay all agents the same (ours: reward_mode='joint')."
            )
    else:
        raise ConfigError(f"joint_reward is sum, mean or unset, not {how!r}.")
    return np.repeat(joined, rewards.shape[1], axis=1)

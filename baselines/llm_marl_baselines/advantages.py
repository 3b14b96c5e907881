"""From rewards to advantages: pure functions on NumPy arrays.

Letters as in :mod:`~llm_marl_baselines.batch`: M nodes, B responses, K steps (joint actions), N agents.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from llm_marl_envs.errors import ConfigError


def step_returns(rewards: np.ndarray, parent: np.ndarray, gamma: float, share: np.ndarray | None = None) -> np.ndarray:
    """Return of every step: its reward plus gamma times the mean of its children's returns.

    In a chain, where a step has at most one child, this is R_t = sum over k >= t of gamma^(k-t) r_k.

    Args:
        rewards: (K, N) or (K,).
        parent: (K,) the step before each step, -1 for first steps. A parent stands before its children.
        gamma: discount in [0, 1].
        share: (K,) what each child counts in its parent's mean; those of one parent sum to 1. By default all count
            the same.

    Returns:
        the shape of ``rewards``.
    """
    returns = np.array(rewards, dtype=np.float64)
    if share is None:
        share = 1 / np.maximum(np.bincount(parent[parent >= 0], minlength=len(parent)), 1)[parent]
    for k in range(len(parent) - 1, -1, -1):
        if parent[k] >= 0:
            if parent[k] >= k:
                raise ConfigError(f"Step {k} stands before its parent {parent[k]}.")
            returns[parent[k]] += gamma * share[k] * returns[k]
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


Baseline = Literal["mean", "loo", "max", "none"]


def group_advantages(
    returns: np.ndarray,
    group: np.ndarray,
    *,
    baseline: Baseline | np.ndarray = "mean",
    standardize: bool = False,
    eps: float = 1e-4,
) -> np.ndarray:
    """Return minus a baseline of its group; optionally divided by the group's standard deviation plus ``eps``.

    With returns x of a group of n:

    - ``mean``: x_g - mean(x). Its expected gradient is (n - 1) / n of the true one, since x_g is part of its baseline;
    - ``loo``: x_g - mean of the others (RLOO, arXiv 2402.14740) = n / (n - 1) times the former. Unbiased. A group of
      one has no others: its return stays as it is, which is unbiased too (standardised, it has no spread and gives 0);
    - ``max``: x_g - max(x). Biased: what is subtracted depends on x_g;
    - ``none``: x_g. Unbiased, and of the largest variance;
    - an array: x_g minus its own number, such as the return of the greedy response (ReMax, arXiv 2310.10505).

    Args:
        returns: (B,)
        group: (B,) any integers; equal ones belong together.
        baseline: see above; an array is (B,).
        standardize: divide by (std + eps), std over the group without Bessel's correction. The result is not centred
            again. This is biased: the divisor depends on x_g.
        eps: keeps a tiny spread from becoming an advantage of +-1.

    Returns:
        (B,); with ``mean``, ``loo`` and ``max`` exactly 0 for a group (of more than one) without spread.
    """
    _, index = np.unique(group, return_inverse=True)
    count = np.bincount(index)
    mean = np.bincount(index, weights=returns) / count
    # A mean of equal numbers can be off by one rounding: such a group has no spread, and must give exactly 0.
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    np.minimum.at(low, index, returns)
    np.maximum.at(high, index, returns)
    centred = np.where((low == high)[index], 0.0, returns - mean[index])
    if isinstance(baseline, np.ndarray):
        advantages = returns - baseline
    elif baseline == "mean":
        advantages = centred
    elif baseline == "loo":
        n = count[index]
        advantages = np.where(n > 1, centred * n / np.maximum(n - 1, 1), 0.0 if standardize else returns)
    elif baseline == "max":
        advantages = returns - high[index]
    elif baseline == "none":
        advantages = returns
    else:
        raise ConfigError(f"baseline is mean, loo, max, none or an array, not {baseline!r}.")
    if standardize:
        std = np.sqrt(np.bincount(index, weights=centred**2) / count)
        advantages = advantages / (std[index] + eps)
    return advantages


def td_advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    acts: np.ndarray,
    step_node: np.ndarray,
    next_node: np.ndarray,
    share: np.ndarray,
    *,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Generalised advantage estimates (GAE, arXiv 1506.02438) of one agent's steps, on a tree.

    With delta = r + gamma * V(next) - V(here), the advantage of a step is delta + gamma * lam * (mean of its children's
    advantages). lam = 0 gives the one-step TD error, lam = 1 the return minus V. Nothing is bootstrapped after the end
    of an episode. At nodes where the agent is not asked V is not read: what follows them is looked through, with gamma
    for every step.

    Args:
        rewards: (K,) of the agent.
        values: (M,) V of the agent at each node; of no account where ``acts`` is False.
        acts: (M,) bool, whether the agent is asked at the node.
        step_node, next_node, share: (K,) as in Batch; the steps of a node stand after the step that led to it.
        gamma, lam: in [0, 1].

    Returns:
        (K,) float64; 0 for steps of nodes where the agent is not asked.
    """
    num_nodes = len(values)
    boot, later = np.zeros(num_nodes), np.zeros(num_nodes)  # value of a node, and the advantage that goes on from it
    boot[acts] = values[acts]
    advantages = np.zeros(len(rewards))
    for k in range(len(rewards) - 1, -1, -1):
        node, then = step_node[k], next_node[k]
        value, tail = (boot[then], later[then]) if then >= 0 else (0.0, 0.0)
        if acts[node]:
            advantages[k] = rewards[k] + gamma * value - values[node] + gamma * lam * tail
            later[node] += share[k] * advantages[k]
        else:
            boot[node] += share[k] * (rewards[k] + gamma * value)
            later[node] += share[k] * gamma * tail
    return advantages


def leave_one_out(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """(K,) each value minus the mean of the others of its group; 0 for a group of one, where there are no others."""
    _, index, count = np.unique(group, return_inverse=True, return_counts=True)
    return np.where(count[index] > 1, group_advantages(values, group, baseline="loo"), 0.0)


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

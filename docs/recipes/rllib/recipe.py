"""RLlib's PPO on a menu view: each agent has a network of its own and chooses from four answers."""

from __future__ import annotations

import logging
import os

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reports its use over the network unless told not to

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

from llm_marl_envs import make
from llm_marl_envs.wrappers import TokenView

ENV_ID = "probe/own-word-v0"
AGENTS = ["agent_1", "agent_2"]
ITERATIONS = 15


def team(settings: object = None) -> ParallelPettingZooEnv:
    """Observations: 96 bytes as float32, the only type that RLlib's networks take. Actions: one of four answers."""
    return ParallelPettingZooEnv(TokenView(make(ENV_ID), length=96, actions="menu", menu=["A", "B", "C", "D"]))


def main() -> None:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    register_env("team", team)
    config = (
        PPOConfig()
        .environment("team")
        .env_runners(num_env_runners=0)  # in this process
        .multi_agent(policies=set(AGENTS), policy_mapping_fn=lambda agent, episode, **kwargs: agent)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=4, lr=3e-3, gamma=1.0)
        .debugging(seed=0, log_level="ERROR")
    )
    algorithm = config.build_algo()
    means = []
    for number in range(1, ITERATIONS + 1):
        returns = algorithm.train()["env_runners"]["agent_episode_returns_mean"]
        means.append(float(returns[AGENTS[0]]))  # the joint reward, so that each agent's is the same
        print(f"iteration {number:2}: mean reward {means[-1]:.2f}")
    algorithm.stop()
    ray.shutdown()
    if means[-1] < 0.9:
        raise SystemExit(f"nothing was learned: mean reward {means[0]:.2f} -> {means[-1]:.2f}")
    print(f"trained PPO for {ITERATIONS} iterations on {ENV_ID}: mean reward {means[0]:.2f} -> {means[-1]:.2f}")


if __name__ == "__main__":
    main()

"""AgileRL's IPPO on a view in bytes: each agent writes one byte out of 256."""

from __future__ import annotations

import logging

import numpy as np
import torch
from agilerl.algorithms import IPPO
from agilerl.training.train_multi_agent_on_policy import train_multi_agent_on_policy
from agilerl.vector import PzDummyVecEnv

from llm_marl_envs import make
from llm_marl_envs.wrappers import TokenView

ENV_ID = "probe/own-word-v0"
STEPS = 6000


def team() -> TokenView:
    """Observations: the first 16 bytes, which AgileRL turns into 16 x 257 indicators. Actions: MultiDiscrete([257])."""
    length = {"observation": 16, "action": 1}
    return TokenView(make(ENV_ID), length=length, observations="multidiscrete", keep="start")


def main() -> None:
    logging.disable(logging.WARNING)
    np.random.seed(0)  # AgileRL draws from the global random states
    torch.manual_seed(0)
    env = team()
    agents = env.possible_agents
    ippo = IPPO(
        # Agents named alike, agent_1 and agent_2, share one network; it has to tell them apart by what they see.
        observation_spaces=[env.observation_space(agent) for agent in agents],
        action_spaces=[env.action_space(agent) for agent in agents],
        agent_ids=agents,
        net_config={"encoder_config": {"hidden_size": [64]}, "head_config": {"hidden_size": [64]}},
        batch_size=64,
        lr=1e-3,
        learn_step=500,
        gamma=0.0,  # one turn; see the page for what another value does
    )
    before = ippo.test(PzDummyVecEnv(team()), loop=100) / len(agents)  # the score is a sum over agents
    train_multi_agent_on_policy(
        PzDummyVecEnv(team()), ENV_ID, "IPPO", [ippo], max_steps=STEPS, evo_steps=500, eval_loop=20, verbose=False
    )
    after = ippo.test(PzDummyVecEnv(team()), loop=100) / len(agents)
    if after < 0.8:
        raise SystemExit(f"nothing was learned: mean reward {before:.2f} -> {after:.2f}")
    print(f"trained IPPO for {STEPS} steps on {ENV_ID}: mean reward {before:.2f} -> {after:.2f}")


if __name__ == "__main__":
    main()

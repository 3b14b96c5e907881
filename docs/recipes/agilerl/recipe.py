"""AgileRL's IPPO on a menu view: each agent has a network of its own and chooses from four answers."""

from __future__ import annotations

import logging

import numpy as np
import torch
from agilerl.algorithms import IPPO
from agilerl.training.train_multi_agent_on_policy import train_multi_agent_on_policy
from agilerl.vector import PzDummyVecEnv

from llm_marl_envs import CollaborationEnv, load_rows
from llm_marl_envs.probes import OwnWordTask
from llm_marl_envs.wrappers import TokenView

STEPS = 3000


class Pair(OwnWordTask):
    """``probe/own-word`` with other names: agents called agent_1 and agent_2 would share one network in AgileRL."""

    def __init__(self) -> None:
        super().__init__()
        self.agents = ("left", "right")


def team() -> TokenView:
    """Observations: 96 bytes as float32. Actions: one of four answers."""
    env = CollaborationEnv(Pair(), load_rows([{"id": "probe"}]))
    return TokenView(env, length=96, actions="menu", menu=["A", "B", "C", "D"])


def main() -> None:
    logging.disable(logging.WARNING)
    np.random.seed(0)  # AgileRL draws from the global random states
    torch.manual_seed(0)
    env = team()
    agents = env.possible_agents
    ippo = IPPO(
        observation_spaces=[env.observation_space(agent) for agent in agents],
        action_spaces=[env.action_space(agent) for agent in agents],
        agent_ids=agents,
        net_config={"encoder_config": {"hidden_size": [64]}, "head_config": {"hidden_size": [64]}},
        batch_size=64,
        lr=2e-3,
        learn_step=250,
        gamma=0.0,  # one turn; the page says what another value does
    )
    before = ippo.test(PzDummyVecEnv(team()), loop=100) / len(agents)  # the score is a sum over agents
    train_multi_agent_on_policy(
        PzDummyVecEnv(team()), "own-word", "IPPO", [ippo], max_steps=STEPS, evo_steps=1000, eval_loop=10, verbose=False
    )
    after = ippo.test(PzDummyVecEnv(team()), loop=100) / len(agents)
    if after < 0.9:
        raise SystemExit(f"nothing was learned: mean reward {before:.2f} -> {after:.2f}")
    print(f"trained IPPO for {STEPS} steps on probe/own-word: mean reward {before:.2f} -> {after:.2f}")


if __name__ == "__main__":
    main()

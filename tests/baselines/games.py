"""Environments of tests: protocols by which probes are played, named on the command line as ``games:Class``."""

from __future__ import annotations

import zlib

from llm_marl_envs.spaces import UnicodeText
from llm_marl_envs.wrappers.base import TextWrapper, clone_of


class Spread(TextWrapper):
    """The same episodes, but every joint action earns a number of its own, so that every group has a spread.

    Args:
        own: whether each agent earns another number.
    """

    def __init__(self, env, own: bool = False):
        super().__init__(env)
        self.own = own
        self.observation_spaces = {a: env.observation_space(a) for a in env.possible_agents}

    def step(self, actions):
        observations, rewards, *ends, infos = self.env.step(actions)
        key = "|".join(f"{a}={text}" for a, text in sorted(actions.items()))
        for agent in rewards:
            rewards[agent] = zlib.crc32((key + agent * self.own).encode()) % 1009 / 1009
        return observations, rewards, *ends, {a: {"acts": 1} for a in infos}

    def clone(self, seed=None):
        return Spread(clone_of(self.env, seed), self.own)


class Letters(TextWrapper):
    """One agent answers for all roles: its first character is the first role's answer, and so on. What tags do in
    ``SingleAgentView``, in the eleven symbols of the tiny model."""

    def __init__(self, env):
        super().__init__(env)
        self.roles = list(env.possible_agents)
        self.possible_agents = ["solo"]
        self.observation_spaces = {"solo": UnicodeText(1000)}
        self.metadata = {**self.metadata, "history": "none"}

    @property
    def agents(self):
        return ["solo"] if self.env.agents else []

    def action_space(self, agent):
        return UnicodeText(len(self.roles))

    def reset(self, seed=None, options=None):
        self.env.reset(seed=seed, options=options)
        return {"solo": "Answer with one of A B C D for each."}, {"solo": {}}

    def step(self, actions):
        played = {role: actions["solo"][i : i + 1] for i, role in enumerate(self.roles)}
        _, rewards, ends, cuts, infos = self.env.step(played)
        first = self.roles[0]
        return (
            {"solo": "Again."},
            {"solo": rewards[first]},
            {"solo": ends[first]},
            {"solo": cuts[first]},
            {"solo": infos[first]},
        )

    def clone(self, seed=None):
        twin = Letters(self.env)
        twin.env = clone_of(self.env, seed)
        return twin

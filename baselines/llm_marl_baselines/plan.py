"""How a rollout branches, and how large it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pettingzoo import ParallelEnv

from llm_marl_envs.errors import ConfigError


@dataclass(frozen=True)
class Start:
    """Where an episode starts: the arguments of ``reset``."""

    seed: int | None = None
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """How a rollout branches.

    Attributes:
        group_size: G, responses that each agent samples at a node.
        shape: ``"tree"`` opens a branch for every joint action (G^t leaves after t turns); ``"chains"`` branches at
            the first turn only and then plays G trajectories side by side.
        pairing: ``"aligned"`` joins the agents' g-th responses (G joint actions a node); ``"cross"`` takes every
            combination (G^N).
        max_joint_actions: the most joint actions in one rollout; more are refused before any is sampled.
        max_turns: an episode that goes on for longer is an error of the environment.
    """

    group_size: int = 4
    shape: Literal["tree", "chains"] = "tree"
    pairing: Literal["aligned", "cross"] = "aligned"
    max_joint_actions: int = 4096
    max_turns: int = 1000

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ConfigError(f"group_size must be at least 1, not {self.group_size}.")
        if self.shape not in ("tree", "chains") or self.pairing not in ("aligned", "cross"):
            raise ConfigError(
                f"shape is 'tree' or 'chains', pairing 'aligned' or 'cross', not {self.shape}/{self.pairing}."
            )
        if self.shape == "chains" and self.pairing == "cross":
            raise ConfigError("pairing='cross' needs shape='tree': chains have one joint action for each response.")

    def branches(self, num_acting: int, turn: int) -> int:
        """Joint actions at one node of that turn. Where no agent is asked: one; chains part at first all the same."""
        if self.shape == "chains":
            return self.group_size if turn == 0 else 1
        if num_acting == 0:
            return 1
        return self.group_size ** (num_acting if self.pairing == "cross" else 1)

    def count(self, num_agents: int, num_turns: int, num_roots: int = 1) -> int:
        """Joint actions of a rollout in which every agent acts in every turn and no episode ends early."""
        nodes, total = num_roots, 0
        for turn in range(num_turns):
            nodes *= self.branches(num_agents, turn)
            total += nodes
        return total

    def check(self, count: int, detail: str) -> None:
        if count > self.max_joint_actions:
            raise ConfigError(
                f"This rollout has {count:,} joint actions ({detail}); max_joint_actions is {self.max_joint_actions:,}."
                " Lower group_size, num_turns or the rows of a step, use shape='chains', or raise max_joint_actions."
            )


def check_size(plan: Plan, env: ParallelEnv, num_starts: int) -> None:
    """Refuse a rollout that would be too large, where the environment says how many turns it has."""
    if (turns := getattr(env.unwrapped, "num_turns", None)) is not None:
        agents = len(env.possible_agents)
        total = plan.count(agents, turns, num_starts)
        plan.check(total, f"{num_starts} starts, {agents} agents, {turns} turns, G = {plan.group_size}")

"""How a rollout branches, and how large it becomes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
class JointAction:
    """One joint action at a node.

    Attributes:
        chosen: which of its responses each acting agent contributes.
        share: the part of the node's weight that goes on to its branch; 0 for one that is played as a baseline only.
        greedy: whether it is the greedy joint response.
    """

    chosen: Mapping[str, int]
    share: float
    greedy: bool = False


@dataclass(frozen=True)
class Plan:
    """How a rollout branches.

    Attributes:
        group_size: G, responses that each agent samples at a node and learns from.
        shape: ``"tree"`` opens a branch for every joint action (G^t leaves after t turns); ``"chains"`` branches at
            the first turn only and then plays G trajectories side by side.
        pairing: ``"aligned"`` joins the agents' g-th responses (G joint actions a node); ``"cross"`` takes every
            combination (G^N); ``"held"`` samples one response more of each agent and holds these while one agent at a
            time runs through its G (N * G), so that within an agent's group nothing else differs.
        greedy: also play the greedy joint response at every node, and go on greedily from there: a baseline that
            nothing is learned from.
        max_joint_actions: the most joint actions in one rollout; more are refused before any is sampled.
        max_turns: an episode that goes on for longer is an error of the environment.
    """

    group_size: int = 4
    shape: Literal["tree", "chains"] = "tree"
    pairing: Literal["aligned", "cross", "held"] = "aligned"
    greedy: bool = False
    max_joint_actions: int = 4096
    max_turns: int = 1000

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ConfigError(f"group_size must be at least 1, not {self.group_size}.")
        if self.shape not in ("tree", "chains") or self.pairing not in ("aligned", "cross", "held"):
            raise ConfigError(
                f"shape is 'tree' or 'chains', pairing 'aligned', 'cross' or 'held', not {self.shape}/{self.pairing}."
            )
        if self.shape == "chains" and self.pairing != "aligned":
            raise ConfigError(
                f"pairing={self.pairing!r} needs shape='tree': chains have one joint action for each response."
            )

    def samples(self, num_acting: int, turn: int) -> int:
        """Responses that each acting agent samples at a node of that turn, held ones included."""
        if self.shape == "chains" and turn > 0:
            return 1
        return self.group_size + (self.pairing == "held" and num_acting > 1)

    def baselines(self, num_acting: int, turn: int) -> int:
        """How many of an agent's responses at a node, the last ones, nothing is learned from."""
        return (
            self.samples(num_acting, turn) + self.greedy - (1 if self.shape == "chains" and turn else self.group_size)
        )

    def branches(self, num_acting: int, turn: int) -> int:
        """Sampled joint actions at one node. Where no agent is asked: one; chains part at first all the same."""
        if self.shape == "chains":
            return self.group_size if turn == 0 else 1
        if num_acting == 0:
            return 1
        if self.pairing == "cross":
            return self.group_size**num_acting
        return self.group_size * (num_acting if self.pairing == "held" else 1)

    def played(self, num_acting: int, turn: int) -> int:
        """Joint actions at one node, the greedy one included."""
        return self.branches(num_acting, turn) + (self.greedy and num_acting > 0)

    def joint_actions(self, acting: Sequence[str], turn: int) -> list[JointAction]:
        """The joint actions at a node, in order. Of an agent's responses the first G are its own group, the next one
        (``held``) is held, and the last one (``greedy``) is the greedy one."""
        number = self.branches(len(acting), turn)
        if self.pairing == "cross":
            choices = [
                dict(zip(acting, chosen, strict=True))
                for chosen in itertools.product(range(self.group_size), repeat=len(acting))
            ]
        elif self.pairing == "held" and len(acting) > 1:
            held = dict.fromkeys(acting, self.group_size)
            choices = [held | {agent: g} for agent in acting for g in range(self.group_size)]
        else:
            choices = [dict.fromkeys(acting, g) for g in range(number)]
        actions = [JointAction(chosen, 1 / number) for chosen in choices]
        if self.greedy and acting:
            last = self.samples(len(acting), turn)
            actions.append(JointAction(dict.fromkeys(acting, last), 0.0, greedy=True))
        return actions

    def count(self, num_agents: int, num_turns: int, num_roots: int = 1) -> int:
        """Joint actions of a rollout in which ``num_agents`` act in every turn and no episode ends early."""
        nodes, greedy, total = num_roots, 0, 0
        for turn in range(num_turns):
            greedy += nodes if self.greedy else 0
            nodes *= self.branches(num_agents, turn)
            total += nodes + greedy
        return total

    def check(self, count: int, detail: str) -> None:
        if count > self.max_joint_actions:
            raise ConfigError(
                f"This rollout has {count:,} joint actions ({detail}); max_joint_actions is {self.max_joint_actions:,}."
                " Lower group_size, num_turns or the rows of a step, use shape='chains', or raise max_joint_actions."
            )


def check_size(plan: Plan, env: ParallelEnv, num_starts: int) -> None:
    """Refuse a rollout that would be too large, where the environment says how many turns it has."""
    if (turns := getattr(env, "num_turns", None)) is not None:
        agents = most_acting(env)
        total = plan.count(agents, turns, num_starts)
        plan.check(total, f"{num_starts} starts, {agents} agents at once, {turns} turns, G = {plan.group_size}")


def most_acting(env: ParallelEnv) -> int:
    """How many agents are asked at once, at most: all, unless the environment says so (``max_acting``)."""
    return int(getattr(env, "max_acting", len(env.possible_agents)))

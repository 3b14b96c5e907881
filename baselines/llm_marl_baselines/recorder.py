"""Numbers nodes, responses and steps as a rollout plays them, and makes a :class:`Batch` of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from llm_marl_envs.spaces import nearest, shortest
from llm_marl_envs.text import render_turn

from .batch import Batch
from .errors import EpisodeError, NonFiniteError
from .plan import JointAction, Plan, Start
from .policies.base import Message, Response


@dataclass
class Node:
    """A running episode at a point where agents are asked."""

    env: ParallelEnv
    start: Start
    root: int
    turn: int
    parent_step: int
    weight: float
    observations: dict[str, str]
    infos: Mapping[str, Mapping[str, Any]]
    messages: dict[str, tuple[Message, ...]]
    greedy: bool = False  # below a greedy joint response, where only greedy ones follow
    told: list[str] = field(default_factory=list)  # the joint history before this node, a text per turn
    played: list[dict[str, str]] = field(default_factory=list)  # joint actions before this node, for replays
    seen: list[dict[str, str]] = field(default_factory=list)  # observations before this node, for replays

    @cached_property
    def acting(self) -> list[str]:
        """Who is asked. Kept, since the node's last branch goes on in the node's own environment."""
        return [a for a in self.env.agents if self.infos.get(a, {}).get("acts", 1)]


@dataclass
class Step:
    node: Node
    index: int
    share: float  # of the node's weight that its branch carries
    greedy: bool
    actions: dict[str, str]
    env: ParallelEnv


class Recorder:
    """Numbers nodes, responses and steps as they come, and makes the batch of them."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.agents: tuple[str, ...] = ()
        self.nodes: list[Node] = []
        self.groups: dict[Any, int] = {}
        self.node_group: list[int] = []
        self.histories: list[str] = []
        self.states: list[str | None] = []
        self.responses: list[Response] = []
        self.response_rows: list[tuple[int, int, float, bool]] = []  # node, agent, weight, clipped
        self.steps: list[list[int]] = []
        self.step_node: list[int] = []
        self.step_share: list[tuple[float, bool]] = []
        self.step_histories: list[str] = []
        self.present: list[list[bool]] = []
        self.actions: list[dict[str, str]] = []
        self.outcomes: dict[int, tuple[list[float], bool, bool, Mapping[str, Any]]] = {}

    def add_node(self, node: Node, given: Mapping[str, list[Response]]) -> list[Step]:
        """Record a node with its responses; returns the joint actions to play."""
        number = len(self.nodes)
        self.nodes.append(node)
        key = (node.root, node.turn) if self.plan.shape == "chains" else number
        self.node_group.append(self.groups.setdefault(key, len(self.groups)))
        self.histories.append("\n\n".join([*node.told, render_turn(node.turn + 1, node.observations, {})]))
        self.states.append(_state(node.env))
        texts: dict[str, list[str]] = {}
        first: dict[str, int] = {}
        for agent, responses in given.items():
            first[agent] = len(self.responses)
            texts[agent] = []
            own = 0 if node.greedy else len(responses) - self.plan.baselines(len(given), node.turn)
            for g, response in enumerate(responses):
                text = nearest(node.env.action_space(agent), response.text)
                texts[agent].append(text)
                weight = node.weight / own if g < own else 0.0
                self.response_rows.append((number, self.agents.index(agent), weight, text != response.text))
                self.responses.append(response)
        idle = {a: shortest(node.env.action_space(a)) for a in node.env.agents if a not in given}
        if node.greedy:
            joint = [JointAction(dict.fromkeys(given, 0), 1.0, greedy=True)]
        else:
            joint = self.plan.joint_actions(list(given), node.turn)
        steps = []
        for action in joint:
            chosen = action.chosen
            row = [-1] * len(self.agents)
            for agent, g in chosen.items():
                row[self.agents.index(agent)] = first[agent] + g
            actions = {a: texts[a][chosen[a]] if a in chosen else idle[a] for a in node.env.agents}
            steps.append(Step(node, len(self.steps), action.share, action.greedy, actions, node.env))
            self.step_share.append((action.share, action.greedy))
            asked = {a: actions[a] for a in chosen}
            self.step_histories.append("\n\n".join([*node.told, render_turn(node.turn + 1, node.observations, asked)]))
            self.steps.append(row)
            self.step_node.append(number)
            self.present.append([a in node.env.agents for a in self.agents])
            self.actions.append(actions)
        return steps

    def finish(
        self,
        step: Step,
        rewards: Mapping[str, float],
        terminations: Mapping[str, bool],
        truncations: Mapping[str, bool],
        infos: Mapping[str, Any],
    ) -> None:
        """Record what a joint action earned, after checking that it is a number and that ended episodes end."""
        env, number = step.env, step.index
        where = f"{env}, start {step.node.start}, turn {step.node.turn + 1}"
        paid = [float(rewards.get(a, 0.0)) for a in self.agents]
        for agent, reward in zip(self.agents, paid, strict=True):
            if not np.isfinite(reward):
                raise NonFiniteError(
                    f"{where}: the reward of agent {agent!r} is {reward}. Mend the environment's score."
                )
        ended = [a for a in env.agents if terminations.get(a) or truncations.get(a)]
        if ended:
            raise EpisodeError(f"{where}: agents {ended} have ended and are still in env.agents: remove them there.")
        over = not env.agents
        truncated = over and not all(terminations.values()) and any(truncations.values())
        self.outcomes[number] = (paid, over and not truncated, truncated, infos)

    def batch(self) -> Batch:
        rows = self.response_rows
        outcomes = [self.outcomes[k] for k in range(len(self.steps))]
        responses = np.array(self.steps, dtype=np.int64).reshape(-1, len(self.agents))
        return Batch(
            agents=self.agents,
            node_weight=np.array([n.weight for n in self.nodes]),
            root=np.array([n.root for n in self.nodes]),
            turn=np.array([n.turn for n in self.nodes]),
            parent_step=np.array([n.parent_step for n in self.nodes]),
            group=np.array(self.node_group),
            observations=[n.observations for n in self.nodes],
            histories=self.histories,
            states=self.states,
            response_node=np.array([r[0] for r in rows], dtype=np.int64),
            response_agent=np.array([r[1] for r in rows], dtype=np.int64),
            responses=self.responses,
            weight=np.array([r[2] for r in rows], dtype=np.float64),
            clipped=np.array([r[3] for r in rows], dtype=bool),
            actions=self.actions,
            step_histories=self.step_histories,
            step_node=np.array(self.step_node),
            step_share=np.array([share for share, _ in self.step_share]),
            greedy=np.array([greedy for _, greedy in self.step_share], dtype=bool),
            step_response=responses,
            rewards=np.array([o[0] for o in outcomes], dtype=np.float64),
            present=np.array(self.present, dtype=bool).reshape(-1, len(self.agents)),
            acted=responses >= 0,
            terminated=np.array([o[1] for o in outcomes], dtype=bool),
            truncated=np.array([o[2] for o in outcomes], dtype=bool),
            infos=[o[3] for o in outcomes],
        )


def _state(env: ParallelEnv) -> str | None:
    try:
        return str(env.state())
    except NotImplementedError:
        return None

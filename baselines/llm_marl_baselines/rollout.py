"""Plays episodes of any text ``ParallelEnv`` with any policies and returns a :class:`~llm_marl_baselines.batch.Batch`.

The rollout knows nothing of tasks, and policies nothing of environments. All episodes advance together, turn by turn:
at each turn every pending question to a policy (agents, groups, prompts, branches) goes out in one call.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from llm_marl_envs.errors import ConfigError, LlmMarlError
from llm_marl_envs.spaces import UnicodeText
from llm_marl_envs.text import render_turn
from llm_marl_envs.vector import step_together

from .batch import Batch
from .policies.base import Message, Policy, Request, Response
from .seeding import derive_seed

Memory = Literal["chat", "observation"]


class ReplayError(LlmMarlError, RuntimeError):
    """A replayed episode differs from the first one: the environment is not deterministic, so it cannot branch."""


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
    """

    group_size: int = 4
    shape: Literal["tree", "chains"] = "tree"
    pairing: Literal["aligned", "cross"] = "aligned"
    max_joint_actions: int = 4096

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
        """Joint actions at one node of that turn."""
        if self.shape == "chains":
            return self.group_size if turn == 0 else 1
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


@dataclass
class _Node:
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
    told: list[str] = field(default_factory=list)  # the joint history before this node, a text per turn
    played: list[dict[str, str]] = field(default_factory=list)  # joint actions before this node, for replays
    seen: list[dict[str, str]] = field(default_factory=list)  # observations before this node, for replays

    @property
    def acting(self) -> list[str]:
        return [a for a in self.env.agents if self.infos.get(a, {}).get("acts", 1)]


def collect(
    policies: Mapping[str, Policy],
    make_env: Callable[[], ParallelEnv],
    starts: Sequence[Start],
    plan: Plan,
    *,
    seed: int,
    greedy: bool = False,
    memory: Memory | None = None,
    executor: Executor | None = None,
) -> Batch:
    """Play one group of episodes from each start.

    Args:
        policies: who answers for each agent. An object that stands for several agents gets their questions together.
        make_env: builds an environment; called once per start, and for branches where the environment cannot clone.
        starts: (P) where the episodes start.
        plan: how they branch.
        seed: of the sampling. The same arguments and weights give the same batch.
        greedy: most likely tokens instead of samples.
        memory: ``"chat"``: a policy sees the whole conversation so far; ``"observation"``: the newest observation
            only. By default what the environment's ``metadata["history"]`` asks for: chat, unless it is ``"full"``.
        executor: runs scores concurrently where the environments are ours.

    Raises:
        ConfigError: not a text environment, an agent without a policy, or more joint actions than the plan allows.
        ReplayError: an environment that has no ``clone`` does not replay.
    """
    if not starts:
        raise ConfigError("A rollout needs at least one start.")
    recorder = _Recorder(plan)
    level = [_root(make_env(), start, i) for i, start in enumerate(starts)]
    env = level[0].env
    agents = tuple(env.possible_agents)
    _check(env, policies)
    remembers = (memory or ("observation" if env.metadata.get("history") == "full" else "chat")) == "chat"
    check_size(plan, env, len(starts))
    recorder.agents = agents
    turn = 0
    while level:
        counts = [plan.branches(len(node.acting), turn) if node.acting else 1 for node in level]
        plan.check(len(recorder.steps) + sum(counts), f"{len(starts)} starts, turn {turn + 1}")
        answers = _ask(policies, level, plan, derive_seed(seed, turn), greedy)
        steps = [s for node, given in zip(level, answers, strict=True) for s in recorder.add_node(node, given)]
        for node in level:
            _branch([s for s in steps if s.node is node], node, make_env)
        results = step_together([s.env for s in steps], [s.actions for s in steps], executor)
        level = []
        for step, (observations, rewards, terminations, truncations, infos) in zip(steps, results, strict=True):
            over = not step.env.agents
            recorder.finish(step, rewards, over and not all(terminations.values()) and any(truncations.values()), infos)
            if not over:
                level.append(_child(step, observations, infos, remembers))
        turn += 1
    return recorder.batch()


def check_size(plan: Plan, env: ParallelEnv, num_starts: int) -> None:
    """Refuse a rollout that would be too large, where the environment says how many turns it has."""
    if (turns := getattr(env.unwrapped, "num_turns", None)) is not None:
        agents = len(env.possible_agents)
        total = plan.count(agents, turns, num_starts)
        plan.check(total, f"{num_starts} starts, {agents} agents, {turns} turns, G = {plan.group_size}")


# -- asking -----------------------------------------------------------------------------------------------------------


def _ask(
    policies: Mapping[str, Policy], level: Sequence[_Node], plan: Plan, seed: int, greedy: bool
) -> list[dict[str, list[Response]]]:
    """For each node and acting agent its responses. Equal questions of a turn are asked once, with more samples."""
    wanted: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, int]]] = {}
    messages: dict[tuple[str, Any], tuple[Message, ...]] = {}
    for i, node in enumerate(level):
        samples = plan.group_size if plan.shape == "tree" or node.turn == 0 else 1
        for agent in node.acting:
            key = (agent, tuple((m["role"], m["content"]) for m in node.messages[agent]))
            wanted.setdefault(key, []).append((i, samples))
            messages[key] = node.messages[agent]
    answers: list[dict[str, list[Response]]] = [{} for _ in level]
    distinct = {id(p): p for p in policies.values()}
    for number, policy in enumerate(distinct.values()):
        keys = [key for key in wanted if policies[key[0]] is policy]
        if not keys:
            continue
        requests = [Request(key[0], messages[key], sum(n for _, n in wanted[key])) for key in keys]
        given = policy.generate(requests, seed=derive_seed(seed, number), greedy=greedy)
        for key, responses in zip(keys, given, strict=True):
            rest = iter(responses)
            for i, samples in wanted[key]:
                answers[i][key[0]] = list(itertools.islice(rest, samples))
    return answers


def _root(env: ParallelEnv, start: Start, index: int) -> _Node:
    observations, infos = env.reset(seed=start.seed, options=None if start.options is None else dict(start.options))
    shown = _texts(env, observations)
    messages: dict[str, tuple[Message, ...]] = {a: ({"role": "user", "content": shown[a]},) for a in env.agents}
    return _Node(env, start, index, 0, -1, 1.0, shown, infos, messages)


def _child(step: _Step, observations: Mapping[str, Any], infos: Mapping[str, Any], remembers: bool) -> _Node:
    node = step.node
    shown = _texts(step.env, observations)
    messages: dict[str, tuple[Message, ...]] = {}
    for agent in step.env.agents:
        told: Message = {"role": "user", "content": shown[agent]}
        before = node.messages.get(agent, ())
        if not remembers:
            messages[agent] = (told,)
        elif agent in node.acting:
            answer: Message = {"role": "assistant", "content": step.actions[agent]}
            messages[agent] = (*before, answer, told)
        else:
            # It was not asked, so two observations follow each other: chat templates want one message for both.
            both: Message = {"role": "user", "content": "\n\n".join(m["content"] for m in (*before[-1:], told))}
            messages[agent] = (*before[:-1], both)
    asked = {a: step.actions[a] for a in node.acting}
    return _Node(
        step.env,
        node.start,
        node.root,
        node.turn + 1,
        step.index,
        node.weight / step.siblings,
        shown,
        infos,
        messages,
        [*node.told, render_turn(node.turn + 1, node.observations, asked)],
        [*node.played, step.actions],
        [*node.seen, node.observations],
    )


def _texts(env: ParallelEnv, observations: Mapping[str, Any]) -> dict[str, str]:
    return {a: str(observations[a]) for a in env.agents}


# -- branching --------------------------------------------------------------------------------------------------------


@dataclass
class _Step:
    node: _Node
    index: int
    siblings: int
    actions: dict[str, str]
    env: ParallelEnv


def _branch(steps: Sequence[_Step], node: _Node, make_env: Callable[[], ParallelEnv]) -> None:
    """Give each joint action of a node an environment of its own; the last one takes the node's."""
    for step in steps[:-1]:
        step.env = _copy(node, make_env)


def _copy(node: _Node, make_env: Callable[[], ParallelEnv]) -> ParallelEnv:
    # Only a clone() that the class itself defines: PettingZoo's wrappers forward attributes, so an inherited one would
    # silently give the environment without its wrapper.
    if "clone" in vars(type(node.env)):
        return node.env.clone()
    env = make_env()
    observations, _ = env.reset(seed=node.start.seed, options=node.start.options and dict(node.start.options))
    for turn, (seen, actions) in enumerate(zip([*node.seen, node.observations], [*node.played, None], strict=True)):
        for agent, text in seen.items():
            if str(observations.get(agent)) != text:
                raise ReplayError(
                    f"{env}: replayed with seed {node.start.seed} and the same actions, agent {agent!r} sees other "
                    f"text at turn {turn + 1} than at first. Branching needs a deterministic environment or one with "
                    "a clone(); with neither, use shape='chains' on one turn or group_size=1."
                )
        if actions is not None:
            observations, *_ = env.step(dict(actions))
    return env


# -- recording --------------------------------------------------------------------------------------------------------


class _Recorder:
    """Numbers nodes, responses and steps as they come, and makes the batch of them."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.agents: tuple[str, ...] = ()
        self.nodes: list[_Node] = []
        self.groups: dict[Any, int] = {}
        self.node_group: list[int] = []
        self.histories: list[str] = []
        self.states: list[str | None] = []
        self.responses: list[Response] = []
        self.response_rows: list[tuple[int, int, float, int]] = []  # node, agent, weight, clipped
        self.steps: list[list[int]] = []
        self.step_node: list[int] = []
        self.outcomes: dict[int, tuple[list[float], bool, bool, Mapping[str, Any]]] = {}

    def add_node(self, node: _Node, given: Mapping[str, list[Response]]) -> list[_Step]:
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
            for response in responses:
                text = _fit(node.env, agent, response.text)
                texts[agent].append(text)
                self.response_rows.append(
                    (number, self.agents.index(agent), node.weight / len(responses), len(response.text) - len(text))
                )
                self.responses.append(response)
        combinations = _combinations(self.plan.pairing, {a: len(r) for a, r in given.items()})
        idle = {a: _idle_action(node.env, a) for a in node.env.agents if a not in given}
        steps = []
        for chosen in combinations:
            row = [-1] * len(self.agents)
            for agent, g in chosen.items():
                row[self.agents.index(agent)] = first[agent] + g
            actions = {a: texts[a][chosen[a]] if a in chosen else idle[a] for a in node.env.agents}
            steps.append(_Step(node, len(self.steps), len(combinations), actions, node.env))
            self.steps.append(row)
            self.step_node.append(number)
        return steps

    def finish(self, step: _Step, rewards: Mapping[str, float], truncated: bool, infos: Mapping[str, Any]) -> None:
        paid = [float(rewards.get(a, 0.0)) for a in self.agents]
        over = not step.env.agents
        self.outcomes[step.index] = (paid, over and not truncated, truncated, infos)

    def batch(self) -> Batch:
        rows = self.response_rows
        outcomes = [self.outcomes[k] for k in range(len(self.steps))]
        responses = np.array(self.steps, dtype=np.int64).reshape(-1, len(self.agents))
        return Batch(
            agents=self.agents,
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
            clipped=np.array([r[3] for r in rows], dtype=np.int64),
            step_node=np.array(self.step_node),
            step_response=responses,
            rewards=np.array([o[0] for o in outcomes], dtype=np.float64),
            acted=responses >= 0,
            terminated=np.array([o[1] for o in outcomes], dtype=bool),
            truncated=np.array([o[2] for o in outcomes], dtype=bool),
            infos=[o[3] for o in outcomes],
        )


def _combinations(pairing: str, counts: Mapping[str, int]) -> list[dict[str, int]]:
    """The joint actions at a node: for each, which of its responses every acting agent contributes."""
    if not counts:
        return [{}]
    if pairing == "cross":
        return [dict(zip(counts, chosen, strict=True)) for chosen in itertools.product(*map(range, counts.values()))]
    return [dict.fromkeys(counts, g) for g in range(next(iter(counts.values())))]


def _state(env: ParallelEnv) -> str | None:
    try:
        return str(env.state())
    except NotImplementedError:
        return None


def _fit(env: ParallelEnv, agent: str, text: str) -> str:
    """The text cut to the agent's action space: a rambling model is data, not an error."""
    space = env.action_space(agent)
    if isinstance(space, UnicodeText):
        fitted = space.clip(text)
    else:
        fitted = "".join(c for c in text if c in space.character_set)[: space.max_length]
    if not space.contains(fitted):
        fitted = _idle_action(env, agent)
    return fitted


def _idle_action(env: ParallelEnv, agent: str) -> str:
    """What stands for the action of an agent that is not asked, or whose text has nothing that the space allows."""
    space = env.action_space(agent)
    filler = " " if space.contains(" " * max(space.min_length, 1)) else next(iter(space.character_set))
    return filler * space.min_length


def _check(env: ParallelEnv, policies: Mapping[str, Policy]) -> None:
    for agent in env.possible_agents:
        if agent not in policies:
            raise ConfigError(f"Agent {agent!r} has no policy; there are policies for {sorted(policies)}.")
        for name in ("observation_space", "action_space"):
            if not isinstance(space := getattr(env, name)(agent), Text):
                raise ConfigError(f"{env}: {name}({agent!r}) is {space!r}; language models need gymnasium.spaces.Text.")


def scores(batch: Batch) -> np.ndarray:
    """(K,) the raw joint score of each step, where the environment reports one in its infos, else the mean reward."""
    return np.array([_score(infos, rewards) for infos, rewards in zip(batch.infos, batch.rewards, strict=True)])


def _score(infos: Mapping[str, Mapping[str, Any]], rewards: Iterable[float]) -> float:
    told = [info["score"] for info in infos.values() if "score" in info]
    return float(told[0]) if told else float(np.mean(list(rewards)))

"""Plays episodes of any text ``ParallelEnv`` with any policies and returns a :class:`~llm_marl_baselines.batch.Batch`.

The rollout knows nothing of tasks, and policies nothing of environments. All episodes advance together, turn by turn:
at each turn every pending question to a policy (agents, groups, prompts, branches) goes out in one call.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from llm_marl_envs.errors import CloneUnsupportedError, ConfigError
from llm_marl_envs.text import render_turn
from llm_marl_envs.vector import step_together

from .batch import Batch
from .errors import EpisodeError, ReplayError
from .plan import Plan, Start, check_size
from .policies.base import Message, Policy, Request, Response
from .policies.scripted import Function, as_policies
from .recorder import Node, Recorder, Step
from .seeding import derive_seed

Memory = Literal["chat", "observation"]


def collect(
    policies: Mapping[str, Policy | Function],
    make_env: Callable[[], ParallelEnv],
    starts: Sequence[Start],
    plan: Plan,
    *,
    seed: int,
    first: int = 0,
    greedy: bool = False,
    memory: Memory | None = None,
    executor: Executor | None = None,
) -> Batch:
    """Play one group of episodes from each start.

    Args:
        policies: who answers for each agent: a policy, or a function (observation, agent) -> str. An object that
            stands for several agents gets their questions together.
        make_env: builds an environment; called once per start, and for branches where the environment cannot clone.
        starts: (P) where the episodes start.
        plan: how they branch.
        seed: of the sampling. The same arguments and weights give the same batch.
        first: the number of the first start among all that are played with this seed, where others play the rest. A
            policy that seeds its samples one by one then gives the same ones however the starts are divided.
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
    recorder = Recorder(plan)
    level = [_root(make_env(), start, i) for i, start in enumerate(starts)]
    env = level[0].env
    agents = tuple(env.possible_agents)
    check_spaces(env)
    for agent in agents:
        if agent not in policies:
            raise ConfigError(f"Agent {agent!r} has no policy; there are policies for {sorted(policies)}.")
    players = as_policies(policies)
    remembers = (memory or ("observation" if env.metadata.get("history") == "full" else "chat")) == "chat"
    check_size(plan, env, len(starts))
    recorder.agents = agents
    turn = 0
    while level:
        if turn == plan.max_turns:
            raise EpisodeError(f"{level[0].env} has not ended after {turn} turns: it needs a finite horizon.")
        count = sum(1 if node.greedy else plan.played(len(node.acting), turn) for node in level)
        plan.check(len(recorder.steps) + count, f"{len(starts)} starts, turn {turn + 1}")
        answers = _ask(players, level, plan, derive_seed(seed, turn), first, greedy)
        steps = []
        for node, given in zip(level, answers, strict=True):
            joint = recorder.add_node(node, given)
            _branch(joint, node, make_env)
            steps += joint
        results = step_together([s.env for s in steps], [s.actions for s in steps], executor)
        level = []
        for step, (observations, rewards, terminations, truncations, infos) in zip(steps, results, strict=True):
            recorder.finish(step, rewards, terminations, truncations, infos)
            if step.env.agents:
                level.append(_child(step, observations, infos, remembers))
            else:
                step.env.close()
        turn += 1
    return recorder.batch()


# -- asking -----------------------------------------------------------------------------------------------------------


def _ask(
    policies: Mapping[str, Policy], level: Sequence[Node], plan: Plan, seed: int, first: int, greedy: bool
) -> list[dict[str, list[Response]]]:
    """For each node and acting agent its responses: the sampled ones, then the greedy one where the plan has one."""
    answers: list[dict[str, list[Response]]] = [{a: [] for a in node.acting} for node in level]
    sampled = [0 if node.greedy else plan.samples(len(node.acting), node.turn) for node in level]
    _answer(policies, level, sampled, answers, seed, first, greedy)
    if plan.greedy:
        _answer(policies, level, [1] * len(level), answers, seed, first, True)
    return answers


def _answer(
    policies: Mapping[str, Policy],
    level: Sequence[Node],
    samples: Sequence[int],
    answers: Sequence[dict[str, list[Response]]],
    seed: int,
    first: int,
    greedy: bool,
) -> None:
    """Append ``samples[i]`` responses of each agent that acts at node i to ``answers[i]``. Equal questions are asked
    once, with more samples. A sample's seed says where it stands: its start, the node's place among those of the start
    at this turn, and its own number; nothing of that depends on what is played beside it."""
    wanted: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, int]]] = {}
    messages: dict[tuple[str, Any], tuple[Message, ...]] = {}
    places: list[int] = []
    so_far: dict[int, int] = {}  # nodes, by root
    for i, node in enumerate(level):
        places.append(so_far.get(node.root, 0))
        so_far[node.root] = places[i] + 1
        for agent in node.acting if samples[i] else ():
            key = (agent, tuple((m["role"], m["content"]) for m in node.messages[agent]))
            wanted.setdefault(key, []).append((i, samples[i]))
            messages[key] = node.messages[agent]
    distinct = {id(p): p for p in policies.values()}
    for number, policy in enumerate(distinct.values()):
        keys = [key for key in wanted if policies[key[0]] is policy]
        if not keys:
            continue
        requests = []
        for key in keys:
            seeds = tuple(
                derive_seed(seed, key[0], first + level[i].root, places[i], sample)
                for i, count in wanted[key]
                for sample in range(count)
            )
            requests.append(Request(key[0], messages[key], len(seeds), seeds))
        given = policy.generate(requests, seed=derive_seed(seed, number, first), greedy=greedy)
        if [len(g) for g in given] != [r.num_samples for r in requests]:
            raise EpisodeError(
                f"{type(policy).__name__}.generate returned {[len(g) for g in given]} responses, and "
                f"{[r.num_samples for r in requests]} were asked for: it must return num_samples for each request."
            )
        for key, responses in zip(keys, given, strict=True):
            rest = iter(responses)
            for i, count in wanted[key]:
                answers[i][key[0]] += itertools.islice(rest, count)


def _root(env: ParallelEnv, start: Start, index: int) -> Node:
    observations, infos = env.reset(seed=start.seed, options=None if start.options is None else dict(start.options))
    shown = _texts(env, observations)
    messages: dict[str, tuple[Message, ...]] = {a: ({"role": "user", "content": shown[a]},) for a in env.agents}
    return Node(env, start, index, 0, -1, 1.0, shown, infos, messages)


def _child(step: Step, observations: Mapping[str, Any], infos: Mapping[str, Any], remembers: bool) -> Node:
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
    return Node(
        step.env,
        node.start,
        node.root,
        node.turn + 1,
        step.index,
        0.0 if step.greedy else node.weight * step.share,
        shown,
        infos,
        messages,
        step.greedy,
        [*node.told, render_turn(node.turn + 1, node.observations, asked)],
        [*node.played, step.actions],
        [*node.seen, node.observations],
    )


def _texts(env: ParallelEnv, observations: Mapping[str, Any]) -> dict[str, str]:
    return {a: str(observations[a]) for a in env.agents}


# -- branching --------------------------------------------------------------------------------------------------------


def _branch(steps: Sequence[Step], node: Node, make_env: Callable[[], ParallelEnv]) -> None:
    """Give each joint action of a node an environment of its own; the last one takes the node's."""
    for step in steps[:-1]:
        step.env = _copy(node, make_env)


def _copy(node: Node, make_env: Callable[[], ParallelEnv]) -> ParallelEnv:
    # Only a clone() that the class itself defines: PettingZoo's wrappers forward attributes, so an inherited one would
    # silently give the environment without its wrapper.
    if "clone" in vars(type(node.env)):
        with contextlib.suppress(CloneUnsupportedError):  # a wrapper around an environment that has none
            return node.env.clone()
    env = make_env()
    observations, _ = env.reset(seed=node.start.seed, options=node.start.options and dict(node.start.options))
    for turn, (seen, actions) in enumerate(zip([*node.seen, node.observations], [*node.played, None], strict=True)):
        for agent, text in seen.items():
            if str(observations.get(agent)) != text:
                raise ReplayError(
                    f"{env}: replayed with seed {node.start.seed} and the same actions, agent {agent!r} sees other "
                    f"text at turn {turn + 1} than at first. Branching needs a deterministic environment or one with "
                    "a clone() of its own."
                )
        if actions is not None:
            observations, *_ = env.step(dict(actions))
    return env


def check_spaces(env: ParallelEnv) -> None:
    """Refuse an environment whose observations and actions are not text."""
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            if not isinstance(space := getattr(env, name)(agent), Text):
                raise ConfigError(f"{env}: {name}({agent!r}) is {space!r}; language models need gymnasium.spaces.Text.")

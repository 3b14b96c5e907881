"""Protocols in rollouts: who is asked, what each is told, what trains, and how branches are made."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper

from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.evaluate import evaluate
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Response
from llm_marl_baselines.policies.scripted import Scripted
from llm_marl_baselines.report import render_transcript
from llm_marl_baselines.rollout import collect
from llm_marl_envs import make
from llm_marl_envs.errors import CloneUnsupportedError
from llm_marl_envs.probes import own_symbol
from llm_marl_envs.wrappers import Discussion, Sequential, SingleAgentView, wrap

RIGHT = [own_symbol(position, turn=0) for position in range(3)]


class Sampler:
    """Answers with random letters and keeps every call."""

    def __init__(self, letters="ABCD"):
        self.letters, self.calls = letters, []

    def generate(self, requests, *, seed, greedy=False):
        self.calls.append(list(requests))
        rng = np.random.default_rng(seed)
        letter = lambda: str(rng.choice(list(self.letters)))  # noqa: E731
        return [[Response(t, t) for t in (letter() for _ in range(r.num_samples))] for r in requests]


def play(plan, make_env, policy, starts=1):
    agents = make_env().possible_agents
    return collect(dict.fromkeys(agents, policy), make_env, [Start(i) for i in range(starts)], plan, seed=3)


def sequential():
    return Sequential(make("probe/own-word-v0", num_agents=3))


def discussion():
    return Discussion(make("probe/two-turn-v0"), message_cost=0.125)


def text_of(batch, step, column):
    return batch.responses[batch.step_response[step, column]].text


# -- sequential ---------------------------------------------------------------------------------------------------


def test_a_sequential_tree_asks_one_agent_a_level():
    policy = Sampler()
    batch = play(Plan(3), sequential, policy)
    assert [{r.agent for r in call} for call in policy.calls] == [{"agent_1"}, {"agent_2"}, {"agent_3"}]
    assert batch.acted.tolist() == [[True, False, False]] * 3 + [[False, True, False]] * 9 + [[False, False, True]] * 27
    assert len(batch.responses) == 3 + 9 + 27  # nothing is sampled for those who are not asked
    for column, weight in enumerate((1 / 3, 1 / 9, 1 / 27)):
        assert batch.weight[batch.response_agent == column] == pytest.approx(weight)
    assert batch.terminated.tolist() == [False] * 12 + [True] * 27
    for k in range(12, 39):
        second, first = batch.parent[k], batch.parent[batch.parent[k]]
        given = [text_of(batch, first, 0), text_of(batch, second, 1), text_of(batch, k, 2)]
        share = np.mean([a == b for a, b in zip(given, RIGHT, strict=True)])
        assert batch.rewards[k] == pytest.approx(share)
    assert not batch.rewards[:12].any()


def test_a_later_agent_is_asked_with_the_earlier_answers_in_one_message():
    policy = Sampler("AB")
    batch = play(Plan(2), sequential, policy)
    (first,) = policy.calls[0]
    assert first.messages[0]["content"].startswith("You are agent 1 of 3")
    for request in policy.calls[2]:
        assert [m["role"] for m in request.messages] == ["user"]
        waited, again, *rest = request.messages[0]["content"].split("\n\n")
        assert (waited, again) == ("Wait: agent_1 answers now.", "Wait: agent_2 answers now.")
        assert rest[0].startswith("You are agent 3 of 3") and rest[1].startswith("The response of agent_1 (turn 1):\n")
    node = batch.step_node[-1]
    told = batch.observations[node]["agent_3"]
    assert f"agent_2 (turn 1):\n{text_of(batch, batch.parent_step[node], 1)}\n" in told
    assert batch.histories[node].count("writes]") == batch.states[node].count("writes]") == 2


def test_a_response_is_worth_the_mean_of_what_follows_it():
    batch = play(Plan(4), sequential, Sampler())
    advantages = MAGRPO().advantages(batch)
    final = np.flatnonzero(batch.terminated)
    root_of = [batch.parent[batch.parent[k]] for k in final]
    returns = [
        np.mean([batch.rewards[k, 0] for k, first in zip(final, root_of, strict=True) if first == s]) for s in range(4)
    ]
    mine = advantages[batch.response_agent == 0]
    assert mine == pytest.approx(np.array(returns) - np.mean(returns))


def test_the_discount_counts_every_step_of_a_turn():
    batch = play(Plan(2), sequential, Sampler("AB"))
    plain, half = (MAGRPO(MAGRPO.Config(gamma=g)).advantages(batch) for g in (1.0, 0.5))
    for column, steps in enumerate((2, 1, 0)):
        of_agent = batch.response_agent == column
        assert half[of_agent] == pytest.approx(plain[of_agent] * 0.5**steps)


# -- discussion ---------------------------------------------------------------------------------------------------


def test_messages_are_actions_that_train():
    policy = Sampler("AB")
    batch = play(Plan(2), discussion, policy)
    assert len(batch.rewards) == 2 + 4 + 8 + 16  # two turns of two steps
    assert batch.acted.all()
    assert batch.rewards[:2].tolist() == [[-0.25, -0.25]] * 2  # two messages of a word each, at 1/8
    for request in policy.calls[1]:
        assert [m["role"] for m in request.messages] == ["user", "assistant", "user"]
        assert request.messages[2]["content"].startswith("The message of ")
    for k in (2, 3, 4, 5):
        message = text_of(batch, batch.parent[k], 1)
        assert f"agent_2 (turn 1, round 1):\n{message}\n" in batch.observations[batch.step_node[k]]["agent_1"]
    MAGRPO().advantages(batch)  # the rewards are joint


def test_who_talks_can_agree():
    def write(observation, agent):
        if "Do not answer yet" in observation:
            return "C" if agent == "agent_1" else "A"
        if agent == "agent_1":
            return "C"
        return observation.split("round 1):\n")[1][0]

    make_env = lambda: Discussion(make("probe/same-word-v0", num_agents=3), topology="star")  # noqa: E731
    found = evaluate(dict.fromkeys(make_env().possible_agents, Scripted(write)), make_env, [Start(0)], seed=0)
    assert found.scores.tolist() == [[1.0]]


# -- single -------------------------------------------------------------------------------------------------------


def test_one_policy_answers_for_all_roles():
    letters = itertools.cycle(["B", "A"])
    policy = Scripted(lambda observation, agent: f"<agent_1>{next(letters)}</agent_1><agent_2>\nD\n</agent_2>")
    batch = play(Plan(2), lambda: SingleAgentView(make("probe/own-word-v0")), policy)
    assert batch.agents == ("solo",) and batch.rewards.tolist() == [[1.0], [0.5]]
    assert batch.scores.tolist() == [1.0, 0.5]
    assert MAGRPO().advantages(batch).tolist() == [0.25, -0.25]


# -- evaluation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["parallel", "sequential", "discussion", "single"])
def test_evaluation_reads_the_score_of_the_answers(protocol):
    def write(observation, agent):
        if agent == "solo":
            return "<agent_1>B</agent_1>\n<agent_2>D"
        return {"agent_1": "B", "agent_2": "D"}[agent]

    cost = {"message_cost": 0.125} if protocol == "discussion" else {}
    make_env = lambda: wrap(make("probe/own-word-v0"), protocol, **cost)  # noqa: E731
    policies = dict.fromkeys(make_env().possible_agents, Scripted(write))
    found = evaluate(policies, make_env, [Start(0), Start(1)], seed=0)
    assert found.scores.tolist() == [[1.0], [1.0]] and found.terms["right"].tolist() == [[1.0], [1.0]]
    assert found.returns.tolist() == [[0.75 if cost else 1.0]] * 2
    assert found.summary()["percent"] == 100.0
    # What messages cost is a term of the episode: two words, each at an eighth.
    assert found.terms.keys() == ({"right", "message_cost"} if cost else {"right"})
    assert not cost or found.terms["message_cost"].tolist() == [[-0.25], [-0.25]]
    shown = render_transcript(found.transcripts[0])
    assert "[score] 1.00 (right 1.00)" in shown
    assert ("[score] -0.25 (message_cost -0.25)" in shown) == bool(cost)
    assert shown.count("[score]") == (2 if cost else 1)


# -- branching ----------------------------------------------------------------------------------------------------


class Outside(ParallelEnv):
    """A third party's: two turns, no clone, no state; it pays each for saying what the other said the turn before."""

    metadata = {"name": "outside"}
    render_mode = None
    resets = 0

    def __init__(self):
        self.possible_agents = ["x", "y"]

    def observation_space(self, agent):
        return Text(40, charset="abcdefghijklmnopqrstuvwxyz AB0123456789")

    def action_space(self, agent):
        return Text(1, min_length=1, charset="AB")

    def reset(self, seed=None, options=None):
        type(self).resets += 1
        self.agents, self.log = list(self.possible_agents), []
        return {a: f"start {seed}" for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        last = self.log[-1] if self.log else actions
        paid = float(actions["x"] == last["y"]) + float(actions["y"] == last["x"])
        self.log.append(dict(actions))
        agents, over = self.agents, len(self.log) == 2
        self.agents = [] if over else agents
        seen = {a: f"turn {len(self.log)} you said {actions[a]}" for a in agents}
        no = dict.fromkeys(agents, False)
        return seen, dict.fromkeys(agents, paid), dict.fromkeys(agents, over), no, {a: {} for a in agents}


class Cloning(Outside):
    """The same with a clone of its own."""

    def clone(self, seed=None):
        return copy.deepcopy(self)


PROTOCOLS = [Sequential, Discussion, SingleAgentView, lambda env: Discussion(Sequential(env))]


@pytest.mark.parametrize("build", PROTOCOLS, ids=["sequential", "discussion", "single", "both"])
@pytest.mark.parametrize(
    "plan", [Plan(2), Plan(3, shape="chains"), Plan(2, pairing="cross")], ids=["tree", "chains", "cross"]
)
def test_a_tree_around_an_environment_without_clone_is_replayed(build, plan):
    single = build is SingleAgentView
    if not single and plan.pairing == "cross":
        plan = Plan(2, pairing="cross", max_joint_actions=100_000)
    policies = [Sampler(["<x>A</x><y>B</y>", "<x>B</x>"] if single else "AB") for _ in range(2)]
    with pytest.raises(CloneUnsupportedError):
        build(Outside()).clone()
    Outside.resets = Cloning.resets = 0
    replayed = play(plan, lambda: build(Outside()), policies[0])
    cloned = play(plan, lambda: build(Cloning()), policies[1])
    assert Outside.resets > Cloning.resets == 1
    assert replayed.rewards.tolist() == cloned.rewards.tolist()
    assert replayed.observations == cloned.observations and replayed.actions == cloned.actions
    assert replayed.acted.tolist() == cloned.acted.tolist()
    assert len(np.unique(replayed.rewards)) > 1
    assert replayed.states == [None] * len(replayed.turn)


@pytest.mark.parametrize("build", [Sequential, Discussion])
def test_a_tree_around_a_plain_wrapper_around_a_protocol_is_replayed_whole(build):
    class Shout(BaseParallelWrapper):
        def step(self, actions):
            observations, *rest = super().step(actions)
            return {a: t.upper() for a, t in observations.items()}, *rest

    def shouted():
        return Shout(build(make("probe/own-word-v0")))

    batch = play(Plan(2), shouted, Sampler("AB"))
    plain = play(Plan(2), lambda: build(make("probe/own-word-v0")), Sampler("AB"))
    assert len(batch.rewards) == 2 + 4
    assert all(t == t.upper() for seen in batch.observations[1:] for t in seen.values())
    assert batch.rewards.tolist() == plain.rewards.tolist()


def test_memory_of_the_newest_observation_only():
    """With history="full" each observation holds all that the agent has seen, for policies without a memory."""
    policy = Sampler("AB")
    play(Plan(2), lambda: Discussion(make("probe/two-turn-v0", history="full")), policy)
    for request in itertools.chain(*policy.calls):
        assert len(request.messages) == 1 and "Turn 1 of 2" in request.messages[0]["content"]
    last = policy.calls[-1][0].messages[0]["content"]
    assert last.count("The message of agent_2") == 2 and last.count("Your message") == 2


def test_same_seed_same_batch():
    for make_env in (sequential, discussion):
        one, two = (play(Plan(2), make_env, Sampler(), starts=2) for _ in range(2))
        assert [r.text for r in one.responses] == [r.text for r in two.responses]
        assert one.rewards.tolist() == two.rewards.tolist() and one.histories == two.histories

"""MAGRPO's gradient is the paper's, term by term; and it moves what it should."""

import dataclasses

import numpy as np
import pytest
import torch

from llm_marl_baselines.algorithms.group_relative import groups
from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.batch import Batch
from llm_marl_baselines.errors import NonFiniteError
from llm_marl_baselines.optim import OptimConfig, Optimizers
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Response, Sampling
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.update import LossConfig, accumulate_gradients
from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError

AGENTS = ["agent_1", "agent_2"]


def policies(sharing="isolated", dtype="float64", **kwargs):
    made = HFPolicies(AGENTS, "tiny", sharing=sharing, dtype=dtype, sampling=Sampling(max_new_tokens=3), **kwargs)
    # Adapters start at zero effect, where half of their gradient vanishes: move them first.
    generator = torch.Generator().manual_seed(5)
    for learner in dict.fromkeys(made.learner_of(a) for a in AGENTS):
        for p in made.parameters(learner):
            p.data.add_(0.01 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return made


def play(policy, plan, env="probe/two-turn-v0", starts=2, seed=0):
    return collect(dict.fromkeys(AGENTS, policy), lambda: make(env), [Start(i) for i in range(starts)], plan, seed=seed)


def log_probability(policy, agent, response: Response) -> torch.Tensor:
    """Sum over the response's tokens, one plain forward pass of one sequence, through nothing of the fast paths."""
    ids = np.concatenate([response.prompt_ids, response.token_ids])
    with policy._learners[agent].active() as model:
        logits = model(input_ids=torch.tensor(ids)[None]).logits[0]
    start = len(response.prompt_ids)
    logp = torch.log_softmax(logits[start - 1 : -1], dim=-1)
    return logp.gather(1, torch.tensor(response.token_ids)[:, None]).sum()


def gradient(policy, agent):
    return torch.cat([p.grad.flatten() for p in policy.parameters(policy.learner_of(agent))]).clone()


def clear(policy):
    for agent in AGENTS:
        for p in policy.parameters(policy.learner_of(agent)):
            p.grad = None


SETTINGS = [
    ("tree", "aligned", {}),
    ("tree", "cross", {}),
    ("chains", "aligned", {}),
    ("tree", "aligned", {"standardize": True}),
    ("tree", "aligned", {"loss": LossConfig("token")}),
    ("tree", "aligned", {"loss": LossConfig("fixed", 7)}),
    ("tree", "aligned", {"gamma": 0.5}),
]


@pytest.mark.parametrize(("shape", "pairing", "extra"), SETTINGS)
def test_gradient_equals_a_plain_loop_over_sequences(shape, pairing, extra):
    policy = policies()
    algorithm = MAGRPO(MAGRPO.Config(group_size=3, shape=shape, pairing=pairing, **extra))
    batch = play(policy, algorithm.plan, "probe/own-word-v0" if pairing == "cross" else "probe/two-turn-v0")
    # Rewards with spread everywhere, so that every response counts.
    rewards = np.repeat(np.random.default_rng(1).normal(size=(len(batch.rewards), 1)), 2, axis=1)
    batch = dataclasses.replace(batch, rewards=rewards)
    (_,) = algorithm.update(batch, policy)
    fast = {agent: gradient(policy, agent) for agent in AGENTS}
    for agent in AGENTS:
        clear(policy)
        loss = torch.zeros((), dtype=torch.float64)
        mine = batch.of_agent(agent)
        for b in mine:
            loss = loss - by_hand(batch, b, algorithm.config) * log_probability(policy, agent, batch.responses[b])
        if algorithm.config.loss.reduction == "token":
            lengths = np.array([len(batch.responses[b].token_ids) for b in mine])
            loss = loss / np.average(lengths, weights=batch.weight[mine])
        elif algorithm.config.loss.reduction == "fixed":
            loss = loss / 7
        (loss / 2).backward()  # two roots
        plain = gradient(policy, agent)
        assert torch.linalg.norm(plain) > 0
        assert torch.linalg.norm(fast[agent] - plain) <= 1e-9 * torch.linalg.norm(plain)


def by_hand(batch: Batch, b: int, config) -> float:
    """Weight times advantage of one response, straight from the definitions, with recursion instead of arrays."""

    def step_return(k: int) -> float:
        children = [c for c in range(len(batch.rewards)) if batch.parent[c] == k]
        later = sum(map(step_return, children)) / len(children) if children else 0.0
        return batch.rewards[k, 0] + config.gamma * later

    def value(response: int) -> float:
        column = batch.response_agent[response]
        steps = [k for k in range(len(batch.rewards)) if batch.step_response[k, column] == response]
        return sum(map(step_return, steps)) / len(steps)

    node, agent = batch.response_node[b], batch.response_agent[b]
    same = lambda c: (  # noqa: E731
        batch.response_node[c] == node
        if config.shape == "tree"
        else (
            batch.root[batch.response_node[c]] == batch.root[node]
            and batch.turn[batch.response_node[c]] == batch.turn[node]
        )
    )
    group = [value(c) for c in range(len(batch.responses)) if batch.response_agent[c] == agent and same(c)]
    advantage = value(b) - sum(group) / len(group)
    if config.standardize:
        advantage /= np.std(group) + config.std_eps
    depth = batch.turn[node]
    joint = 1 if config.pairing == "aligned" else 2
    weight = (
        1 / config.group_size
        if config.shape == "chains"
        else float(config.group_size) ** -(joint * int(depth)) / config.group_size
    )
    return weight * advantage


def test_kl_gradient_pulls_back_to_the_reference():
    policy = policies()
    batch = play(policy, Plan(4), "probe/own-word-v0")
    none = np.zeros(len(batch.responses))
    stats = accumulate_gradients(policy, batch, "agent_1", none, LossConfig(kl_coef=0.5))
    assert stats["kl"] > 0
    fast = gradient(policy, "agent_1")
    clear(policy)
    loss = torch.zeros((), dtype=torch.float64)
    for b in batch.of_agent("agent_1"):
        response = batch.responses[b]
        ours = next(policy.score("agent_1", [response.prompt_ids], [response.token_ids]))
        theirs = next(policy.score("agent_1", [response.prompt_ids], [response.token_ids], reference=True, grad=False))
        d = theirs.logprobs - ours.logprobs
        loss = loss + 0.5 * batch.weight[b] / 2 * (torch.exp(d) - d - 1).sum()
    loss.backward()
    assert torch.linalg.norm(fast - gradient(policy, "agent_1")) <= 1e-9 * torch.linalg.norm(fast)


def test_float32_gradient_is_within_the_numerical_floor():
    """float32 against float64 of the same weights and the same batch."""
    wide, narrow = policies(), policies(dtype="float32")
    for agent in AGENTS:
        for ours, theirs in zip(narrow.parameters(agent), wide.parameters(agent), strict=True):
            theirs.data.copy_(ours.data)
    batch = play(wide, Plan(4))
    algorithm = MAGRPO(MAGRPO.Config())
    rewards = np.repeat(np.random.default_rng(1).normal(size=(len(batch.rewards), 1)), 2, axis=1)
    batch = dataclasses.replace(batch, rewards=rewards)
    for policy in (wide, narrow):
        (_,) = algorithm.update(batch, policy)
    for agent in AGENTS:
        exact = gradient(wide, agent)
        assert torch.linalg.norm(gradient(narrow, agent) - exact) <= 1e-5 * torch.linalg.norm(exact)


def weights_of(policy, learner):
    return [p.detach().clone() for p in policy.parameters(learner)]


def test_the_kl_can_be_logged_without_changing_the_gradient():
    policy = policies()
    batch = play(policy, Plan(4), "probe/own-word-v0")
    advantages = np.random.default_rng(0).normal(size=len(batch.responses))
    found = []
    for config in (LossConfig(), LossConfig(log_kl=True)):
        clear(policy)
        found.append((accumulate_gradients(policy, batch, "agent_1", advantages, config), gradient(policy, "agent_1")))
    (quiet, plain), (told, logged) = found
    assert torch.equal(plain, logged)
    assert "kl" not in quiet and told["kl"] > 0
    weighted = accumulate_gradients(policy, batch, "agent_1", advantages, LossConfig(kl_coef=0.5))
    assert weighted["kl"] == pytest.approx(told["kl"], rel=1e-12)


@pytest.mark.parametrize("sharing", ["isolated", "full"])
def test_agents_do_not_touch_each_other(sharing):
    policy = policies(sharing, dtype="float32")
    batch = play(policy, Plan(4), "probe/own-word-v0")
    advantages = np.random.default_rng(0).normal(size=len(batch.responses))
    accumulate_gradients(policy, batch, "agent_1", advantages, LossConfig())
    assert all(p.grad is None or not p.grad.any() for p in policy.parameters("agent_2"))
    before = {a: weights_of(policy, a) for a in AGENTS}
    Optimizers({a: policy.parameters(a) for a in AGENTS}, OptimConfig(), 1).step(0)
    assert any(not torch.equal(a, b) for a, b in zip(before["agent_1"], policy.parameters("agent_1"), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before["agent_2"], policy.parameters("agent_2"), strict=True))


def test_shared_agents_add_to_one_gradient():
    policy = policies("shared")
    assert policy.learner_of("agent_1") == policy.learner_of("agent_2")
    batch = play(policy, Plan(4), "probe/own-word-v0")
    advantages = np.random.default_rng(0).normal(size=len(batch.responses))
    parts = []
    for agent in AGENTS:
        clear(policy)
        accumulate_gradients(policy, batch, agent, advantages, LossConfig())
        parts.append(gradient(policy, agent))
    clear(policy)
    for agent in AGENTS:
        accumulate_gradients(policy, batch, agent, advantages, LossConfig())
    assert torch.allclose(gradient(policy, "agent_1"), parts[0] + parts[1], rtol=1e-12, atol=1e-15)


def test_a_group_without_spread_gives_no_update():
    policy = policies(dtype="float32")
    batch = play(policy, Plan(4), "probe/own-word-v0")
    batch = dataclasses.replace(batch, rewards=np.full(batch.rewards.shape, 0.1))
    optimizers = Optimizers({a: policy.parameters(a) for a in AGENTS}, OptimConfig(weight_decay=0.1), 1)
    before = {a: weights_of(policy, a) for a in AGENTS}
    (stats,) = MAGRPO(MAGRPO.Config()).update(batch, policy)
    assert stats["zero_groups"] == 1 and stats["advantage_std"] == 0
    optimizers.step(0)
    for a in AGENTS:
        assert all(torch.equal(x, y) for x, y in zip(before[a], policy.parameters(a), strict=True))


def test_groups_are_per_node_and_agent():
    batch = play(policies(), Plan(3))
    found = groups(batch)
    assert all(np.bincount(found)[np.unique(found)] == 3)
    chains = play(policies(), Plan(3, shape="chains"), starts=2)
    assert sorted(np.bincount(groups(chains))) == [3] * 8  # 2 roots x 2 turns x 2 agents


def test_a_policy_that_does_not_sample_cannot_be_trained():
    batch = play(policies(), Plan(2), "probe/own-word-v0")
    silent = dataclasses.replace(batch, responses=[Response("A")] * len(batch.responses))
    with pytest.raises(ConfigError, match="'agent_2' has no tokens"):
        accumulate_gradients(policies(), silent, "agent_2", np.ones(len(batch.responses)), LossConfig())


def test_a_broken_loss_names_the_agent():
    policy = policies()
    batch = play(policy, Plan(2), "probe/own-word-v0")
    with pytest.raises(NonFiniteError, match="'agent_1' is nan"):
        accumulate_gradients(policy, batch, "agent_1", np.full(len(batch.responses), np.nan), LossConfig())


@pytest.mark.parametrize(
    "bad",
    [
        {"baseline": "greedy", "standardize": True},
        {"baseline": "none", "standardize": True},
        {"credit": "counterfactual", "pairing": "cross"},
        {"credit": "counterfactual", "baseline": "max"},
        {"loss": {"epochs": 2}},
        {"loss": {"clip_range": 1.5}},
        {"group_size": 1},
        {"gamma": 1.5},
        {"gamma": -0.1},
        {"std_eps": 0},
        {"loss": {"kl_coef": -1}},
    ],
)
def test_bad_settings(bad):
    with pytest.raises(ConfigError):
        if "loss" in bad:
            LossConfig(**bad["loss"])
        MAGRPO.Config(**bad)

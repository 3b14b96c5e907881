"""Actor-critics on the tiny model: gradients against plain float64 loops, critics that keep their values, and settings."""

import dataclasses
import signal

import numpy as np
import pytest
import torch
from forked import kill_self, on_call, output, run_cli

from llm_marl_baselines import cli, trainer
from llm_marl_baselines import run as runs
from llm_marl_baselines.algorithms.critic_based import CriticConfig
from llm_marl_baselines.algorithms.iac import IAC
from llm_marl_baselines.algorithms.igrpo import IGRPO
from llm_marl_baselines.algorithms.maac import MAAC
from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.checkpoint import complete
from llm_marl_baselines.losses import clipped_ratio
from llm_marl_baselines.optim import OptimConfig, Optimizers
from llm_marl_baselines.plan import Start
from llm_marl_baselines.policies.base import Sampling
from llm_marl_baselines.policies.critics import Critic, Critics
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.settings import parse
from llm_marl_baselines.trainer import Trainer
from llm_marl_baselines.update import LossConfig
from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError, DataError

AGENTS = ["agent_1", "agent_2"]
TEXTS = ["A", "agent 1 writes B, and 2 C", "Turn 2. D", "1234"]


def policies(algorithm, sharing="isolated", dtype="float64", seed=5):
    """Tiny policies with the algorithm's critics, moved off their first values, where half of a gradient vanishes."""
    made = HFPolicies(AGENTS, "tiny", sharing=sharing, dtype=dtype, sampling=Sampling(max_new_tokens=2))
    algorithm.prepare(made, AGENTS)
    generator = torch.Generator().manual_seed(seed)
    for learner in made.learners:
        for p in made.parameters(learner):
            p.data.add_(0.02 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return made


def play(policy, plan, starts=2, seed=0, own=False):
    """Two turns of the probe; the rewards are random, so that everything counts."""
    batch = collect(
        dict.fromkeys(AGENTS, policy),
        lambda: make("probe/two-turn-v0"),
        [Start(i) for i in range(starts)],
        plan,
        seed=seed,
    )
    rewards = np.random.default_rng(seed).normal(size=(len(batch.rewards), 2))
    return dataclasses.replace(batch, rewards=rewards if own else np.repeat(rewards[:, :1], 2, axis=1))


def gradients(policy):
    """For each learner, flat; None where it has none."""
    found = {}
    for learner in policy.learners:
        grads = [p.grad.flatten() for p in policy.parameters(learner) if p.grad is not None]
        found[learner] = torch.cat(grads).clone() if grads else None
    return found


def clear(policy):
    for learner in policy.learners:
        for p in policy.parameters(learner):
            p.grad = None


def weights_of(policy):
    return {name: [p.detach().clone() for p in policy.parameters(name)] for name in policy.learners}


def close(one, two, tolerance=1e-9):
    assert torch.linalg.norm(two) > 0
    assert torch.linalg.norm(one - two) <= tolerance * torch.linalg.norm(two)


# -- plain loops: one sequence at a time, recursion instead of arrays ---------------------------------------------------


def log_probabilities(policy, agent, response):
    """(T,) one forward pass of one sequence."""
    ids = np.concatenate([response.prompt_ids, response.token_ids])
    with policy._learners[agent].active() as model:
        logits = model(input_ids=torch.tensor(ids)[None]).logits[0]
    logp = torch.log_softmax(logits[len(response.prompt_ids) - 1 : -1], dim=-1)
    return logp.gather(1, torch.tensor(response.token_ids)[:, None])[:, 0]


def normalised(policy, critic, ids):
    """What the head says of one text, with gradient."""
    function = policy.critics[critic]
    with function._active() as model:
        hidden = model.base_model(input_ids=torch.tensor(np.asarray(ids))[None]).last_hidden_state[0, -1]
    return (hidden * function.weight).sum() + function.bias


def plain_value(policy, critic, ids):
    mean, spread = policy.critics[critic].scale
    with torch.no_grad():
        return mean + spread * normalised(policy, critic, ids).item()


def critic_text(policy, algorithm, batch, node, agent):
    """(name of the critic, token ids) that it reads at a node."""
    if isinstance(algorithm, MAAC):
        text = batch.histories[node] if algorithm.config.critic_input == "history" else batch.states[node]
        return "critic/joint", policy.critics["critic/joint"].base.tokenizer(text)["input_ids"]
    column = AGENTS.index(agent)
    response = next(
        b for b in range(len(batch.responses)) if batch.response_node[b] == node and batch.response_agent[b] == column
    )
    return f"critic/{policy.learner_of(agent)}", batch.responses[response].prompt_ids


def plain_advantages(policy, algorithm, batch, agent):
    """{step: advantage}, {node: target of V}, by recursion on the tree."""
    config, column = algorithm.config, AGENTS.index(agent)
    values = [plain_value(policy, *critic_text(policy, algorithm, batch, n, agent)) for n in range(len(batch.turn))]
    steps_of = {n: [k for k in range(len(batch.rewards)) if batch.step_node[k] == n] for n in range(len(batch.turn))}

    def advantage(k):
        after = [n for n in range(len(batch.turn)) if batch.parent_step[n] == k]
        delta = batch.rewards[k, column] - values[batch.step_node[k]]
        if not after:
            return delta
        later = [advantage(c) for c in steps_of[after[0]]]
        return delta + config.gamma * values[after[0]] + config.gamma * config.lam * sum(later) / len(later)

    found = {k: advantage(k) for k in range(len(batch.rewards))}
    targets = {n: values[n] + sum(found[k] for k in ks) / len(ks) for n, ks in steps_of.items()}
    return found, targets


def plain_actor_loss(policy, algorithm, batch, agent, advantages):
    config, column = algorithm.config, AGENTS.index(agent)
    mine = {}
    for k, advantage in advantages.items():
        mine[int(batch.step_response[k, column])] = advantage  # aligned: a response is in one joint action
    scale = np.sqrt(np.mean(np.square(list(mine.values())))) + config.std_eps if config.standardize else 1.0
    loss = torch.zeros((), dtype=torch.float64)
    for b, advantage in mine.items():
        turn = int(batch.turn[batch.response_node[b]])
        weight = 1 / config.group_size if config.shape == "chains" else config.group_size ** -(turn + 1)
        weight /= batch.num_roots
        logp = log_probabilities(policy, agent, batch.responses[b])
        if config.loss.clip_range is None:
            loss = loss - weight * advantage / scale * logp.sum()
            continue
        eps = config.loss.clip_range
        for t, then in enumerate(batch.responses[b].logprobs.astype(np.float64)):
            ratio = torch.exp(logp[t] - then)
            kept = min(max(ratio.item(), 1 - eps), 1 + eps)
            a = advantage / scale
            # The clip takes a token's gradient away where its term is the smaller one.
            loss = loss - weight * (ratio * a if ratio.item() * a <= kept * a else torch.tensor(kept * a))
    return loss


def plain_critic_loss(policy, name, parts, coef):
    """``parts``: (ids, target, weight). The scale is that of these targets, the first ones that the critic sees."""
    mean = sum(w * t for _, t, w in parts) / sum(w for _, _, w in parts)
    square = sum(w * t * t for _, t, w in parts) / sum(w for _, _, w in parts)
    spread = np.sqrt(square - mean**2)
    loss = torch.zeros((), dtype=torch.float64)
    for ids, target, weight in parts:
        loss = loss + coef * 0.5 * weight * (normalised(policy, name, ids) - (target - mean) / spread) ** 2
    return loss


SETTINGS = [
    (MAAC, "isolated", {}),
    (MAAC, "isolated", {"gamma": 0.7, "lam": 0.6}),
    (MAAC, "shared", {"shape": "chains", "lam": 1.0, "critic_input": "state"}),
    (MAAC, "isolated", {"lam": 0.95, "standardize": True, "loss": LossConfig(clip_range=0.2, epochs=2)}),
    (IAC, "isolated", {"gamma": 0.7}),
    (IAC, "shared", {"lam": 0.5}),
    (IAC, "isolated", {"shape": "chains", "lam": 0.9, "critic": CriticConfig(weights="actor", coef=2.0)}),
    (IAC, "isolated", {"lam": 0.95, "standardize": True, "loss": LossConfig(clip_range=0.2, epochs=2)}),
]


@pytest.mark.parametrize(("kind", "sharing", "settings"), SETTINGS)
def test_gradients_equal_plain_loops(kind, sharing, settings):
    algorithm = kind(kind.Config(group_size=2, **settings))
    policy = policies(algorithm, sharing)
    batch = play(policy, algorithm.plan, starts=2 if settings else 1, own=kind is IAC)
    advantages, parts = {}, {}
    for agent in AGENTS:
        advantages[agent], targets = plain_advantages(policy, algorithm, batch, agent)
        for node, target in targets.items():
            if kind is MAAC and agent != AGENTS[0]:
                continue  # one critic, whoever its agents are
            name, ids = critic_text(policy, algorithm, batch, node, agent)
            depth = 1 / 2 if batch.turn[node] else 1
            parts.setdefault(name, []).append((ids, target, depth / batch.num_roots))
    stats = next(iter(algorithm.update(batch, policy)))
    fast = gradients(policy)
    clear(policy)
    losses = {name: plain_critic_loss(policy, name, p, algorithm.config.critic.coef) for name, p in parts.items()}
    told = {key: value for key, value in stats.items() if key.startswith("critic") and key.endswith("/loss")}
    assert {f"{name}/loss": pytest.approx(loss.item()) for name, loss in losses.items()} == told
    actors = [plain_actor_loss(policy, algorithm, batch, agent, advantages[agent]) for agent in AGENTS]
    sum(losses.values(), sum(actors)).backward()
    plain = gradients(policy)
    assert set(fast) == set(plain) and len(plain) == len(set(map(policy.learner_of, AGENTS))) + len(parts)
    for name in plain:
        close(fast[name], plain[name])


def test_q_gradients_equal_plain_loops():
    algorithm = MAAC(MAAC.Config(group_size=3, critic_of="q", gamma=0.8))
    policy = policies(algorithm)
    batch = play(policy, algorithm.plan, starts=1)
    tokenizer = policy.critics["critic/joint"].base.tokenizer
    texts = [tokenizer(text)["input_ids"] for text in batch.step_histories]
    values = [plain_value(policy, "critic/joint", ids) for ids in texts]
    parts, advantages = [], {}
    for k, ids in enumerate(texts):
        here = [j for j in range(len(texts)) if batch.step_node[j] == batch.step_node[k]]
        after = [j for j in range(len(texts)) if batch.parent[j] == k]
        target = batch.rewards[k, 0] + (0.8 * sum(values[j] for j in after) / 3 if after else 0.0)
        parts.append((ids, target, 1 / 9 if batch.turn[batch.step_node[k]] else 1 / 3))
        advantages[k] = values[k] - sum(values[j] for j in here if j != k) / 2
    next(iter(algorithm.update(batch, policy)))
    fast = gradients(policy)
    clear(policy)
    loss = plain_critic_loss(policy, "critic/joint", parts, 0.5)
    for agent in AGENTS:
        loss = loss + plain_actor_loss(policy, algorithm, batch, agent, advantages)
    loss.backward()
    for name, plain in gradients(policy).items():
        close(fast[name], plain)


def test_later_passes_clip_the_ratio():
    """mappo: the second pass's actor gradient, at weights that have moved by a large step, against the plain loop."""
    loss = LossConfig(clip_range=0.1, epochs=3)
    algorithm = MAAC(MAAC.Config(group_size=3, lam=0.95, loss=loss, critic=CriticConfig(epochs=2)))
    policy = policies(algorithm)
    batch = play(policy, algorithm.plan)
    advantages, _ = plain_advantages(policy, algorithm, batch, "agent_1")  # of the critic before it learned
    passes = algorithm.update(batch, policy)
    optimizers = Optimizers(
        {n: policy.parameters(n) for n in policy.learners}, OptimConfig(lr=0.02), 1, policy.critics.names
    )
    first = next(passes)
    assert first["agent_1/clipped_ratio_share"] == 0 and first["agent_1/logprob_gap"] < 1e-4
    optimizers.step(0)
    second = next(passes)
    fast = gradients(policy)["agent_1"]
    assert 0 < second["agent_1/clipped_ratio_share"] < 1
    assert "critic/joint/loss" in second and not [key for key in second if key.endswith("logprob_gap")]
    clear(policy)
    plain_actor_loss(policy, algorithm, batch, "agent_1", advantages).backward()
    close(fast, gradients(policy)["agent_1"])
    # Without the clip it would be another one.
    clear(policy)
    wide = MAAC(MAAC.Config(group_size=3, lam=0.95, loss=LossConfig(clip_range=0.999999)))
    plain_actor_loss(policy, wide, batch, "agent_1", advantages).backward()
    assert torch.linalg.norm(fast - gradients(policy)["agent_1"]) > 0.01 * torch.linalg.norm(fast)
    clear(policy)
    third = next(passes)
    assert "critic/joint/loss" not in third and gradients(policy)["critic/joint"] is None  # it has had its two epochs
    assert next(passes, None) is None


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [  # d loss / d logprob = - ratio * A where it is not clipped
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.2),
        (1.5, 2.0, -2.4, 0.0),  # gained enough already
        (0.5, 2.0, -1.0, -1.0),  # lost: may come back
        (0.9, -2.0, 1.8, 1.8),
        (0.5, -2.0, 1.6, 0.0),
        (1.5, -2.0, 3.0, 3.0),
    ],
)
def test_clipped_ratio_by_hand(ratio, advantage, loss, gradient):
    logprobs = torch.tensor([[np.log(ratio) - 1.0, -3.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, False]])
    sampled = torch.tensor([[-1.0, 99.0]], dtype=torch.float64)  # what stands in the padding is of no account
    weights, advantages = torch.tensor([0.5]), torch.tensor([advantage])
    found, cut = clipped_ratio(logprobs, sampled, mask, advantages, weights, 0.2)
    found.backward()
    assert found.item() == pytest.approx(0.5 * loss)
    assert logprobs.grad.tolist()[0] == pytest.approx([0.5 * gradient, 0.0])
    assert cut == (gradient == 0)


# -- the order of updates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sharing", "critics"),
    [
        (MAAC, "isolated", ["critic/joint"]),
        (MAAC, "shared", ["critic/joint"]),
        (IAC, "isolated", ["critic/agent_1", "critic/agent_2"]),
        (IAC, "shared", ["critic/shared"]),
    ],
)
def test_a_critic_takes_one_step_a_pass_whoever_its_agents_are(kind, sharing, critics, monkeypatch):
    algorithm = kind(
        kind.Config(group_size=2, critic=CriticConfig(epochs=2), loss=LossConfig(clip_range=0.2, epochs=3))
    )
    policy = policies(algorithm, sharing, "float32")
    assert policy.critics.names == critics
    batch = play(policy, algorithm.plan, own=kind is IAC)
    calls, original = [], Critics.fit

    def counted(self, critic, texts, targets, weights, *, first=True):
        calls.append((critic, first, tuple(targets)))
        return original(self, critic, texts, targets, weights, first=first)

    monkeypatch.setattr(Critics, "fit", counted)
    optimizers = Optimizers({n: policy.parameters(n) for n in policy.learners}, OptimConfig(), 1, policy.critics.names)
    seen = []
    for stats in algorithm.update(batch, policy):
        optimizers.step(0)
        seen.append({key for key in stats if key.startswith("critic") and key.endswith("loss")})
    named = {f"{name}/loss" for name in critics}
    assert seen == [named, named, set()]
    # The same targets in every pass, and they enter the scale once.
    assert [(name, first) for name, first, _ in calls] == [(n, True) for n in critics] + [(n, False) for n in critics]
    assert len({targets for _, _, targets in calls}) == len(critics)
    for name in critics:
        (adam,) = [optimizers._adam[name].state[p]["step"] for p in policy.parameters(name)[:1]]
        assert adam == 2


def test_a_decentralised_critic_learns_nothing_from_its_teammate():
    algorithm = IAC(IAC.Config(group_size=2))
    policy = policies(algorithm)
    batch = play(policy, algorithm.plan, own=True)
    next(iter(algorithm.update(batch, policy)))
    before = gradients(policy)
    clear(policy)
    policy = policies(algorithm)
    other = dataclasses.replace(batch, rewards=batch.rewards * np.array([1.0, -3.0]) + np.array([0.0, 7.0]))
    next(iter(algorithm.update(other, policy)))
    after = gradients(policy)
    for name in ("agent_1", "critic/agent_1"):
        assert torch.equal(before[name], after[name])
    for name in ("agent_2", "critic/agent_2"):
        assert not torch.equal(before[name], after[name])


def test_a_value_head_on_the_actors_weights_trains_them():
    config = IAC.Config(group_size=2, critic=CriticConfig(weights="actor"))
    policy = policies(IAC(config))
    assert [len(policy.parameters(f"critic/{a}")) for a in AGENTS] == [2, 2]  # a weight and a bias; no adapter
    ids = [policy.critics.encode("critic/agent_1", text) for text in TEXTS]
    policy.critics.fit("critic/agent_1", ids, np.arange(4.0), np.ones(4))
    found = gradients(policy)
    assert torch.linalg.norm(found["agent_1"]) > 0 and torch.linalg.norm(found["critic/agent_1"]) > 0
    assert found["agent_2"] is None or not found["agent_2"].any()
    # And an adapter of its own leaves them alone.
    policy = policies(IAC(IAC.Config(group_size=2)))
    policy.critics.fit("critic/agent_1", ids, np.arange(4.0), np.ones(4))
    found = gradients(policy)
    assert torch.linalg.norm(found["critic/agent_1"]) > 0
    assert all(found[a] is None or not found[a].any() for a in AGENTS)


def test_the_critics_adapter_is_not_in_the_actors_way():
    """Adding and training a critic changes neither what actors sample nor how they are scored."""
    bare = HFPolicies(AGENTS, "tiny", dtype="float64", sampling=Sampling(max_new_tokens=2))
    algorithm = MAAC(MAAC.Config(group_size=2))
    policy = HFPolicies(AGENTS, "tiny", dtype="float64", sampling=Sampling(max_new_tokens=2))
    algorithm.prepare(policy, AGENTS)
    for p in policy.parameters("critic/joint"):
        p.data.add_(0.3)
    batches = [play(p, algorithm.plan) for p in (bare, policy)]
    assert [r.text for r in batches[0].responses] == [r.text for r in batches[1].responses]
    for one, two in zip(batches[0].responses, batches[1].responses, strict=True):
        assert one.logprobs.tolist() == two.logprobs.tolist()


@pytest.mark.parametrize("kind", [MAAC, IAC])
def test_seats_that_are_not_trained_are_left_alone(kind, monkeypatch):
    algorithm = kind(kind.Config(group_size=2))
    policy = policies(algorithm)
    learners = policy.learners
    monkeypatch.setattr(HFPolicies, "trains", lambda self, agent: agent == "agent_1")
    batch = play(policy, algorithm.plan, own=kind is IAC)
    stats = next(iter(algorithm.update(batch, policy)))
    assert "agent_1/loss" in stats and "agent_2/loss" not in stats
    moved = {name for name in learners if any(p.grad is not None and p.grad.any() for p in policy.parameters(name))}
    assert moved == {"agent_1", "critic/joint" if kind is MAAC else "critic/agent_1"}


# -- values ----------------------------------------------------------------------------------------------------------


def a_critic(dtype="float64", **kwargs):
    algorithm = MAAC(MAAC.Config(group_size=2))
    policy = policies(algorithm, dtype=dtype, **kwargs)
    return policy, [policy.critics.encode("critic/joint", text) for text in TEXTS]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
def test_values_stay_as_they_were_when_the_scale_moves(dtype, tolerance):
    """PopArt: whatever the new targets are, before any optimiser step."""
    policy, texts = a_critic(dtype)
    critic: Critic = policy.critics["critic/joint"]
    critic.adjust(np.arange(2.0), np.ones(2))
    before = policy.critics.values("critic/joint", texts)
    assert np.std(before) > 1e-3
    for targets in ([5.0, -1, 2, 2], [1000.0, 2000, 3000, 4000], [0.0] * 4, [1e-3, 0, 0, 0]):
        old = critic.scale
        critic.adjust(np.array(targets), np.array([1.0, 2, 3, 4]))
        assert critic.scale != old
        size = max(abs(critic.scale[0]), critic.scale[1], 1)
        assert policy.critics.values("critic/joint", texts) == pytest.approx(before, abs=tolerance * size)


def test_the_scale_is_the_weighted_one_of_the_targets():
    policy, _ = a_critic()
    critic = policy.critics["critic/joint"]
    assert critic.scale == (0.0, 1.0)
    targets, weights = np.array([5.0, -1, 2, 2]), np.array([1.0, 2, 3, 4])
    critic.adjust(targets, 7 * weights)
    mean = np.average(targets, weights=weights)
    assert critic.scale == pytest.approx((mean, np.sqrt(np.average((targets - mean) ** 2, weights=weights))))
    # The second batch counts for a hundredth more than the first, as Adam's averages do at the start.
    critic.adjust(np.array([8.0]), np.ones(1))
    assert critic.scale[0] == pytest.approx((0.99 * mean + 8) / 1.99)
    assert not critic.moments.requires_grad and critic.moments.dtype == torch.float64


def test_targets_without_spread_do_not_blow_the_scale_up():
    policy, texts = a_critic()
    critic = policy.critics["critic/joint"]
    critic.adjust(np.full(4, 3.0), np.ones(4))
    assert critic.scale == (3.0, 0.01)
    assert policy.critics.values("critic/joint", texts) == pytest.approx(3.0, abs=0.01)
    assert policy.critics.fit("critic/joint", texts, np.full(4, 3.0), np.ones(4)) < 1


def test_the_first_targets_set_the_scale_and_the_values():
    """A head that held its first values, near 0, against a scale of mean 1000 and spread 15 would have to start at -67,
    and an optimiser that moves it by 1e-3 a step would never bring it back."""
    policy = HFPolicies(AGENTS, "tiny", sampling=Sampling(max_new_tokens=1))
    MAAC().prepare(policy, AGENTS)
    texts = [policy.critics.encode("critic/joint", text) for text in TEXTS]
    targets = np.array([1000.0, 1010, 990, 1030])
    loss = policy.critics.fit("critic/joint", texts, targets, np.full(4, 0.25))
    assert policy.critics.values("critic/joint", texts) == pytest.approx(np.full(4, targets.mean()))
    assert loss == pytest.approx(0.5)  # the variance of what is normalised, halved


def test_values_do_not_depend_on_padding_or_on_the_budget():
    policy, texts = a_critic()
    policy.critics["critic/joint"].adjust(np.arange(4.0), np.ones(4))
    alone = [policy.critics.values("critic/joint", [text])[0] for text in texts]
    plain = [plain_value(policy, "critic/joint", text) for text in texts]
    assert policy.critics.values("critic/joint", texts) == pytest.approx(alone, abs=1e-12)
    assert alone == pytest.approx(plain, abs=1e-12)
    policy.critics.fit("critic/joint", texts, np.arange(4.0), np.arange(1.0, 5.0), first=False)
    whole = gradients(policy)["critic/joint"]
    clear(policy)
    policy.score_tokens = 5
    assert policy.critics.values("critic/joint", texts) == pytest.approx(alone, abs=1e-12)
    policy.critics.fit("critic/joint", texts, np.arange(4.0), np.arange(1.0, 5.0), first=False)
    close(gradients(policy)["critic/joint"], whole)


def test_a_new_critic_says_zero_and_fits_in_units_of_the_return():
    algorithm = MAAC(MAAC.Config(group_size=2))
    policy = HFPolicies(AGENTS, "tiny", sampling=Sampling(max_new_tokens=1))
    algorithm.prepare(policy, AGENTS)
    texts = [policy.critics.encode("critic/joint", text) for text in TEXTS]
    assert policy.critics.values("critic/joint", texts).tolist() == [0.0] * 4
    targets = np.array([1000.0, 1010, 990, 1030])
    optimizers = Optimizers({"critic": policy.parameters("critic/joint")}, OptimConfig(lr=3e-3), 100)
    for _ in range(40):
        policy.critics.fit("critic/joint", texts, targets, np.full(4, 0.25))
        optimizers.step(0)
    assert policy.critics.values("critic/joint", texts) == pytest.approx(targets, abs=2)


def test_critics_are_saved_and_loaded_to_the_last_bit(tmp_path):
    policy, texts = a_critic("float32")
    policy.critics["critic/joint"].adjust(np.array([5.0, -1, 2, 2]), np.ones(4))
    policy.save(tmp_path)
    other, _ = a_critic("float32", seed=6)
    assert (other.critics.values("critic/joint", texts) != policy.critics.values("critic/joint", texts)).all()
    other.load(tmp_path)
    assert other.critics.values("critic/joint", texts).tolist() == policy.critics.values("critic/joint", texts).tolist()
    assert other.critics["critic/joint"].scale == policy.critics["critic/joint"].scale
    for name in policy.learners:
        assert all(torch.equal(a, b) for a, b in zip(policy.parameters(name), other.parameters(name), strict=True))
    # Without a critic, or with one of another kind, it is another policy.
    heads = policies(IAC(IAC.Config(group_size=2, critic=CriticConfig(weights="actor"))), dtype="float32")
    with pytest.raises(DataError, match="critic/joint"):
        heads.load(tmp_path)


@pytest.mark.parametrize("sharing", ["isolated", "shared", "full"])
@pytest.mark.parametrize("where", ["adapter", "actor"])
def test_a_step_moves_every_learner_in_every_way_of_sharing(sharing, where):
    algorithm = IAC(IAC.Config(group_size=2, critic=CriticConfig(weights=where)))
    policy = policies(algorithm, sharing, "float32")
    optimizers = Optimizers({n: policy.parameters(n) for n in policy.learners}, OptimConfig(), 1, policy.critics.names)
    batch = play(policy, algorithm.plan, own=True)
    before = weights_of(policy)
    stats = next(iter(algorithm.update(batch, policy)))
    optimizers.step(0)
    for name in policy.learners:
        assert any(not torch.equal(a, b) for a, b in zip(before[name], policy.parameters(name), strict=True)), name
    names = ["shared"] if sharing == "shared" else AGENTS
    assert {f"critic/{n}/loss" for n in names} <= set(stats)
    assert all(f"{a}/explained_variance" in stats for a in AGENTS)


# -- whole runs ------------------------------------------------------------------------------------------------------

RUNS = {
    "maac": "--algorithm.lam 0.5",
    "ippo": "--algorithm.critic.weights actor --algorithm.critic.epochs 2 --algorithm.loss.epochs 3",
}


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_goes_on_to_the_same_bytes(name, tmp_path):
    args = f"train {name} --env probe/own-word-v0 --model tiny --steps 3 --checkpoint-every 2 --eval-every -1 --trackers []"
    args = [*args.split(), *RUNS[name].split(), "--algorithm.group_size", "4", "--output", "run"]
    ends = []
    for folder, sabotage in (("whole", None), ("killed", lambda: on_call(trainer, "collect", 3, kill_self))):
        (tmp_path / folder).mkdir()
        code = run_cli(args, tmp_path / folder, sabotage)
        if sabotage:
            assert code == -signal.SIGKILL, output(tmp_path / folder)
            code = run_cli(["train", "--resume", "run"], tmp_path / folder)
        assert code == 0, output(tmp_path / folder)
        run = tmp_path / folder / "run"
        files = sorted(p for p in (complete(run)[-1] / "policy").iterdir())
        assert len(files) == (3 if name == "maac" else 4)
        ends.append([(run / "metrics.jsonl").read_bytes(), *(p.read_bytes() for p in files)])
    assert ends[0] == ends[1]
    assert b'"critic' in ends[0][0] and b"explained_variance" in ends[0][0]


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make_config", "text"),
    [
        (lambda: CriticConfig(epochs=0), "critic.epochs must be at least 1, not 0"),
        (lambda: CriticConfig(coef=0.0), "critic.coef must be above 0, not 0.0"),
        (lambda: CriticConfig(coef=float("nan")), "critic.coef must be above 0, not nan"),
        (lambda: MAAC.Config(group_size=0), "group_size must be at least 1, not 0"),
        (lambda: IAC.Config(gamma=1.1), "gamma must lie between 0 and 1, not 1.1"),
        (lambda: IAC.Config(lam=-0.1), "lam must lie between 0 and 1, not -0.1"),
        (lambda: MAAC.Config(std_eps=0.0), "std_eps must be above 0, not 0.0"),
        (lambda: MAAC.Config(critic=CriticConfig(weights="actor")), "critic.weights=adapter"),
        (lambda: MAAC.Config(critic_of="q", shape="chains"), "critic_of=q .*needs shape=tree .*got chains and 4"),
        (lambda: MAAC.Config(critic_of="q", group_size=1), "critic_of=q .*group_size of at least 2; got tree and 1"),
        (lambda: MAAC.Config(critic_of="q", lam=0.5), "critic_of=q has one-step targets: lam=0, not 0.5"),
        (lambda: MAAC.Config(critic_of="q", critic_input="state"), "critic_input=history"),
        (lambda: LossConfig(epochs=2), "loss.epochs=2 needs loss.clip_range"),
        (lambda: LossConfig(epochs=0), "loss.epochs must be at least 1, not 0"),
        (lambda: LossConfig(clip_range=0.0), "loss.clip_range must lie between 0 and 1, not 0.0"),
        (lambda: LossConfig(clip_range=1.0), "loss.clip_range must lie between 0 and 1, not 1.0"),
        (lambda: IGRPO.Config(teammates="fixed", shape="chains"), "teammates=fixed needs shape=tree"),
        (lambda: IGRPO.Config(group_by="turn"), "groups of their own: not group_by=turn"),
        (lambda: MAGRPO.Config(credit="counterfactual", pairing="cross"), "credit=counterfactual .*pairing=aligned"),
        (lambda: MAGRPO.Config(credit="counterfactual", shape="chains"), "credit=counterfactual .*needs shape=tree"),
        (
            lambda: MAGRPO.Config(credit="counterfactual", baseline="greedy"),
            "baseline=loo and group_by=agent_turn; got greedy",
        ),
        (lambda: MAGRPO.Config(credit="counterfactual", baseline="loo", group_by="turn"), "got loo and turn"),
        (lambda: MAGRPO.Config(baseline="loo", group_size=1), "group_size must be at least 2, not 1: one response"),
        (lambda: OptimConfig(critic_lr=-1.0), "optim.critic_lr must be a number of at least 0, not -1.0"),
    ],
)
def test_bad_settings(make_config, text):
    with pytest.raises(ConfigError, match=text):
        make_config()


@pytest.mark.parametrize("name", ["maac", "iac", "mappo", "ippo"])
def test_presets(name):
    config = parse(name, ["--env", "probe/own-word-v0", "--model", "tiny"]).algorithm
    assert isinstance(config, (MAAC if name in ("maac", "mappo") else IAC).Config)
    many = name in ("mappo", "ippo")
    assert (config.lam, config.standardize, config.loss.clip_range) == (
        (0.95, True, 0.2) if many else (0.0, False, None)
    )
    assert (config.loss.epochs > 1, config.critic.epochs > 1) == (many, many)


def test_a_state_that_the_environment_does_not_have():
    algorithm = MAAC(MAAC.Config(group_size=2, critic_input="state"))
    policy = policies(algorithm, dtype="float32")
    batch = play(policy, algorithm.plan)
    with pytest.raises(ConfigError, match="critic_input=state, but the environment has no state"):
        next(iter(algorithm.update(dataclasses.replace(batch, states=[None] * len(batch.states)), policy)))


def test_rewards_that_differ_need_to_be_joined():
    policy = policies(MAAC(), dtype="float32")
    batch = play(policy, MAAC(MAAC.Config(group_size=2)).plan, own=True)
    with pytest.raises(ConfigError, match="joint_reward"):
        next(iter(MAAC(MAAC.Config(group_size=2)).update(batch, policy)))
    next(iter(MAAC(MAAC.Config(group_size=2, joint_reward="mean")).update(batch, policy)))


def test_critics_have_names_of_their_own_and_read_what_fits():
    policy, _ = a_critic("float32")
    with pytest.raises(ConfigError, match="There is a learner 'critic/joint' already"):
        policy.critics.add("critic/joint", "agent_1")
    with pytest.raises(ConfigError, match="'agent_2'"):
        policy.critics.add("agent_2", "agent_1")
    with pytest.raises(ConfigError, match=r"'critic/joint' was given 9,000 tokens, and its model 'tiny' reads 8,192"):
        policy.critics.encode("critic/joint", "A" * 9000)
    assert policy.critics.encode("critic/joint", "").tolist() == [policy.critics["critic/joint"].base.pad_id]


def test_the_critics_learning_rate_is_its_own():
    policy, texts = a_critic("float32")
    optimizers = Optimizers(
        {n: policy.parameters(n) for n in policy.learners},
        OptimConfig(lr=1e-2, critic_lr=0.0),
        10,
        policy.critics.names,
    )
    before = weights_of(policy)
    policy.critics.fit("critic/joint", texts, np.arange(4.0), np.ones(4), first=False)
    optimizers.step(0)
    assert all(
        torch.equal(a, b) for a, b in zip(before["critic/joint"], policy.parameters("critic/joint"), strict=True)
    )


def test_an_update_that_fails_leaves_the_critics_scale_as_it_was(tmp_path, monkeypatch):
    """The checkpoint that is saved then holds the weights that the batch was sampled with, the scale among them."""
    monkeypatch.chdir(tmp_path)
    args = (
        "train maac --env probe/own-word-v0 --model tiny --steps 2 --eval_every -1 --output run --trackers []".split()
    )
    step, seen = Optimizers.step, []

    def broken(self, number):
        policy = trainers[-1].policy
        if number == 1:
            for p in policy.parameters("agent_1"):
                p.grad = torch.full_like(p, float("nan"))
        try:
            return step(self, number)
        finally:
            seen.append(policy.critics["critic/joint"].moments.tolist())

    trainers, train = [], Trainer.train
    monkeypatch.setattr(Trainer, "train", lambda self, **kwargs: (trainers.append(self), train(self, **kwargs))[1])
    monkeypatch.setattr(Optimizers, "step", broken)
    assert cli.main(args) == 1
    after_first, adjusted = seen
    assert adjusted != after_first
    kept, _ = runs.restore(tmp_path / "run")
    assert kept.policy.critics["critic/joint"].moments.tolist() == after_first

"""Importance weights for samples of another engine: by hand, by exact expectations, and through the update."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tabular import AGENTS, Rules, Tabular, all_groups, estimate, exact, played

from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.losses import clipped_ratio, effective_sample_share, importance_weights, policy_gradient
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Sampling
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.update import LossConfig, accumulate_gradients, policy_updates
from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError

UNCAPPED = 1e9
MASK = torch.tensor([[True, True, False], [True, False, False]])


def log(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


# --- the formula

TRAINED, SAMPLED = log([0.6, 0.1, 1.0], [0.9, 1.0, 1.0]), log([0.3, 0.2, 0.01], [0.1, 0.01, 0.01])  # ratios 2, 1/2; 9


def test_weights_are_capped_ratios_and_padding_counts_nothing():
    weights, sums = importance_weights(TRAINED.requires_grad_(), SAMPLED, MASK, 2.5)
    assert weights.tolist() == [pytest.approx([2, 0.5, 1]), pytest.approx([2.5, 1, 1])] and not weights.requires_grad
    assert sums == {
        "weights": pytest.approx(5.0),
        "squares": pytest.approx(4 + 0.25 + 6.25),
        "largest": 2.5,
        "capped": 1,
    }
    nothing = importance_weights(TRAINED, SAMPLED, torch.zeros_like(MASK), 2.0)[1]
    assert nothing == {"weights": 0, "squares": 0, "largest": 0, "capped": 0}


def test_a_ratio_beyond_all_numbers_is_the_cap():
    weights, sums = importance_weights(torch.tensor([[0.0]]), torch.tensor([[-1e4]]), torch.tensor([[True]]), 2.0)
    assert weights.item() == 2 and sums["largest"] == 2


def test_every_token_of_the_gradient_is_multiplied_by_its_weight():
    weights, _ = importance_weights(TRAINED, SAMPLED, MASK, 2.5)
    advantages, share = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 0.25])
    logprobs = TRAINED.detach().clone().requires_grad_()
    policy_gradient(logprobs, MASK, advantages, share, weights).backward()
    # - share * advantage * weight
    assert logprobs.grad.tolist() == [pytest.approx([-2.0, -0.5, 0]), pytest.approx([0.25 * 2.5, 0, 0])]


def test_with_ratios_the_weight_stands_before_the_clip():
    weights = torch.tensor([[2.0, 0.5, 1.0], [2.5, 1.0, 1.0]], dtype=torch.float64)
    moved = (TRAINED.detach() + torch.tensor([[0.1, 0.5, 3.0], [0.5, 3.0, 3.0]])).requires_grad_()
    advantages, share = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 0.25])
    loss, cut = clipped_ratio(moved, TRAINED.detach(), MASK, advantages, share, 0.2, weights)
    # The second token's ratio is above 1.2 with a positive advantage: cut. The third's, with a negative one, is not.
    by_hand = -0.5 * (2 * math.exp(0.1) * 2 + 0.5 * 1.2 * 2) - 0.25 * (2.5 * math.exp(0.5) * -1)
    assert loss.item() == pytest.approx(by_hand) and cut == 1
    loss.backward()
    grads = [[-0.5 * 2 * math.exp(0.1) * 2, 0, 0], [0.25 * 2.5 * math.exp(0.5), 0, 0]]
    assert moved.grad.tolist() == [pytest.approx(row) for row in grads]


def test_effective_sample_share():
    assert effective_sample_share(4.0, 4.0, 4) == 1  # four of weight 1
    assert effective_sample_share(2.0, 4.0, 4) == 0.25  # one of weight 2, three of 0
    assert effective_sample_share(3.0, 5.0, 2) == pytest.approx(0.9)  # 1 and 2
    assert effective_sample_share(0.0, 0.0, 3) == 0


@given(
    st.lists(st.tuples(st.floats(-30, 0), st.floats(-30, 0)), min_size=1, max_size=20),
    st.floats(1, 100),
)
def test_no_weight_exceeds_the_cap_and_the_effective_share_is_a_share(pairs, cap):
    trained, sampled = (torch.tensor([column], dtype=torch.float64) for column in zip(*pairs, strict=True))
    weights, sums = importance_weights(trained, sampled, torch.ones_like(trained, dtype=torch.bool), cap)
    assert (weights > 0).all() and (weights <= cap).all() and sums["largest"] == weights.max()
    above = [t - s - math.log(cap) for t, s in pairs]
    assert sum(gap > 1e-9 for gap in above) <= sums["capped"] <= sum(gap > -1e-9 for gap in above)
    share = effective_sample_share(sums["weights"], sums["squares"], len(pairs))
    assert 1 / len(pairs) - 1e-9 <= share <= 1 + 1e-9
    if len({t - s for t, s in pairs}) == 1:
        assert share == pytest.approx(1)


# --- expectations

ONE = Rules(turns=1)


def mixed(agent):
    """One agent's policy has moved away from the one that sampled, Tabular(0)."""
    policy = Tabular(0)
    policy.logits[agent] = Tabular(2).logits[agent]
    return policy


def expected(cap, agent, **loss):
    algorithm = MAGRPO(MAGRPO.Config(group_size=2, baseline="loo", loss=LossConfig(importance_cap=cap, **loss)))
    plan = dataclasses.replace(algorithm.plan, max_joint_actions=4096)
    return estimate(algorithm, all_groups(plan, ONE), mixed(agent))[agent]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("loss", [{}, {"clip_range": 0.2}])
def test_responses_of_one_token_give_the_exact_gradient_of_the_policy_that_is_trained(agent, loss):
    # Everything that can be sampled, with its probability under the sampler; the exact one knows nothing of a sampler.
    wanted = exact(ONE, policy=mixed(agent))[agent]
    np.testing.assert_allclose(expected(UNCAPPED, agent, **loss), wanted, atol=1e-12)
    without = np.abs(expected(0.0, agent) - wanted).max()
    assert without > 0.05 * np.abs(wanted).max()
    assert np.abs(expected(2.0, agent, **loss) - wanted).max() < without


def errors_of(seed, temperature, noise):
    """A game of two tokens out of three, sampled at another temperature or with disturbed logits: how far the expected
    gradient is from the exact one, relative in norm, by cap (0: without weights)."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def logprobs(tables, temperature=1.0):
        first, *second = (torch.log_softmax(row / temperature, 0) for row in tables)
        return torch.stack([torch.stack([first[a], second[a][b]]) for a, b in itertools.product(range(3), repeat=2)])

    def gradient(loss):
        return torch.cat(torch.autograd.grad(loss, tables))

    tables, reward = [draw(3).requires_grad_() for _ in range(4)], draw(9)
    sampled = logprobs([table.detach() + noise * draw(3) for table in tables], temperature)
    chances, trained = sampled.sum(1).exp(), logprobs(tables).detach()
    wanted = gradient(-(logprobs(tables).sum(1).exp() * reward).sum())
    advantages = reward - (chances * reward).sum()
    found, mask = {}, torch.ones(9, 2, dtype=torch.bool)
    for cap in (0.0, 2.0, UNCAPPED):
        weights = importance_weights(trained, sampled, mask, cap)[0] if cap else None
        grad = gradient(policy_gradient(logprobs(tables), mask, advantages, chances, weights))
        found[cap] = float((grad - wanted).norm() / wanted.norm())
    return found


@pytest.mark.parametrize(("temperature", "noise"), [(0.7, 0.0), (1.4, 0.0), (1.0, 0.1), (1.0, 0.5)])
def test_in_longer_responses_the_gradient_is_nearer_to_the_exact_one_as_a_rule(temperature, noise):
    # Not in every game: what the tokens before and after add to a token's ratio is left out.
    errors = [errors_of(seed, temperature, noise) for seed in range(40)]
    for cap in (2.0, UNCAPPED):
        assert np.mean([e[cap] for e in errors]) < 0.8 * np.mean([e[0.0] for e in errors])
        assert np.mean([e[cap] < e[0.0] for e in errors]) > 0.7


# --- through the update


def sampled_batch(policy, num_starts=2, group=4):
    policies = dict.fromkeys(("agent_1", "agent_2"), policy)
    starts = [Start(i) for i in range(num_starts)]
    return collect(policies, lambda: make("probe/same-word-v0"), starts, Plan(group), seed=3)


def gradient_of(policy, batch, advantages, cap, **settings):
    for name in policy.learners:
        for parameter in policy.parameters(name):
            parameter.grad = None
    config = LossConfig(importance_cap=cap, **settings)
    stats = accumulate_gradients(policy, batch, "agent_1", advantages, config)
    return torch.cat([p.grad.reshape(-1) for p in policy.parameters("agent_1")]), stats


@pytest.fixture(scope="module")
def tiny():
    policy = HFPolicies(("agent_1", "agent_2"), "tiny", sampling=Sampling(max_new_tokens=4))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name in policy.learners:
            for parameter in policy.parameters(name):
                parameter.normal_(0, 0.1, generator=generator)
    batch = sampled_batch(policy)
    return policy, batch, np.random.default_rng(0).normal(size=len(batch.responses))


@pytest.mark.parametrize("settings", [{}, {"clip_range": 0.2}])
def test_where_sampler_and_trainer_agree_nothing_changes(tiny, settings):
    policy, batch, advantages = tiny
    plain, before = gradient_of(policy, batch, advantages, 0, **settings)
    weighed, stats = gradient_of(policy, batch, advantages, 2, **settings)
    assert (weighed - plain).norm() < 1e-6 * plain.norm()
    assert stats["importance_mean"] == pytest.approx(1, abs=1e-5) == stats["importance_max"]
    assert stats["importance_ess"] == pytest.approx(1, abs=1e-6) and stats["importance_capped_share"] == 0
    assert not [name for name in before if name.startswith("importance")]
    default, after = gradient_of(policy, batch, advantages, None, **settings)
    assert torch.equal(default, plain) and after == before


def lowered(batch, agent, by):
    """The batch, as if its sampler had given the agent's tokens log-probabilities lower by ``by``, in turn."""
    shifts = itertools.cycle(by)
    responses = list(batch.responses)
    for b in batch.of_agent(agent):
        row = responses[b].logprobs
        shift = np.array([next(shifts) for _ in row], dtype=row.dtype)
        responses[b] = dataclasses.replace(responses[b], logprobs=row - shift)
    return dataclasses.replace(batch, responses=responses)


def test_what_is_logged_of_weights_that_are_known(tiny):
    policy, batch, advantages = tiny
    count = sum(len(batch.responses[b].token_ids) for b in batch.of_agent("agent_1"))
    other = lowered(batch, "agent_1", [math.log(w) for w in (0.5, 1.5, 4.0)])
    _, stats = gradient_of(policy, other, advantages, 2.0)
    weights = np.array(list(itertools.islice(itertools.cycle((0.5, 1.5, 2.0)), count)))
    assert stats["importance_mean"] == pytest.approx(weights.mean(), rel=1e-4) and stats["importance_max"] == 2
    assert stats["importance_ess"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum() / count, rel=1e-4)
    assert stats["importance_capped_share"] == pytest.approx((weights == 2).mean())


def test_the_same_shift_of_all_tokens_scales_the_gradient(tiny):
    policy, batch, advantages = tiny
    plain, _ = gradient_of(policy, batch, advantages, 0)
    half, _ = gradient_of(policy, lowered(batch, "agent_1", [math.log(0.5)]), advantages, 2)
    assert (half - plain / 2).norm() < 1e-5 * plain.norm()


def test_another_engine_is_weighed_unless_it_is_switched_off(tiny, monkeypatch):
    policy, batch, advantages = tiny
    other = lowered(batch, "agent_1", [math.log(1.5), math.log(9.0)])
    plain, _ = gradient_of(policy, other, advantages, 0)
    monkeypatch.setattr(HFPolicies, "separate_sampler", True)
    weighed, stats = gradient_of(policy, other, advantages, None)
    assert stats["importance_max"] == 2 and (weighed - plain).norm() > 0.1 * plain.norm()
    off, stats = gradient_of(policy, other, advantages, 0)
    assert torch.equal(off, plain) and "importance_max" not in stats


def test_passes_after_the_first_compare_with_the_policy_at_the_start_of_the_update():
    config = LossConfig(importance_cap=2.0, clip_range=0.2, epochs=3)
    batch, sampler = played(Plan(2), ONE, [(0, 1, 1, 0), (1, 1, 0, 0)])
    policy = Tabular(1)
    logits = policy.logits["left"]
    mine = batch.of_agent("left")
    tokens = torch.tensor([int(batch.responses[b].token_ids[0]) for b in mine])
    mu = torch.log_softmax(sampler.logits["left"].detach(), 1)[0][tokens]
    old = torch.log_softmax(logits.detach(), 1)[0][tokens]
    advantages = np.zeros(len(batch.responses))
    advantages[mine] = own = np.array([1.0, -2.0, 0.5, 1.5])
    shares = torch.from_numpy(batch.weight[mine] / batch.num_roots)
    weights, clipped = torch.exp(old - mu).clamp(max=2), []
    for stats in policy_updates(policy, batch, advantages, config, {}):
        twin = logits.detach().clone().requires_grad_()
        ratio = torch.exp(torch.log_softmax(twin, 1)[0][tokens] - old)
        gain = torch.minimum(ratio * torch.from_numpy(own), ratio.clamp(0.8, 1.2) * torch.from_numpy(own))
        (-(shares * weights * gain)).sum().backward()
        torch.testing.assert_close(logits.grad, twin.grad, atol=1e-12, rtol=0)
        assert stats["left/importance_mean"] == pytest.approx(float(weights.mean()))
        clipped.append(stats["left/clipped_ratio_share"])
        with torch.no_grad():
            logits -= 2 * logits.grad
        logits.grad = None
    assert not np.allclose(mu, old) and clipped[0] == 0 and max(clipped) > 0


@pytest.mark.parametrize("cap", [-1.0, 0.5, 0.999, math.nan])
def test_a_cap_below_one_is_refused(cap):
    with pytest.raises(ConfigError, match="importance_cap must be at least 1, or 0"):
        LossConfig(importance_cap=cap)

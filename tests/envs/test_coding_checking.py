"""`check_dataset` and its command, in the real sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coding_rows import COOP_ROWS, HUMANEVAL_ROWS, MBPP_ROWS, SQUARES

from llm_marl_envs.__main__ import main
from llm_marl_envs.coding import coop_humaneval, humaneval, mbpp
from llm_marl_envs.coding.checking import DatasetReport, Finding, check_dataset

SHARED = Path(__file__).resolve().parents[3] / "shared/data"


def checked(rows, module=humaneval):
    env = module.parallel_env(data=rows)
    return check_dataset(env.task, env.rows, threads=2)


def test_right_solutions_reach_full_marks():
    report = checked(HUMANEVAL_ROWS)
    assert [(f.id, f.passed, f.total, f.is_full) for f in report.findings] == [
        ("Own/0", 4, 4, True),
        ("Own/1", 2, 2, True),
    ]
    assert report.lines() == [
        "2 of 2 reference solutions reach full marks (6 counted tests passed)",
        "asserts that hold whatever a program does: not counted: 1, in 1 rows (Own/0)",
    ]
    assert not checked(MBPP_ROWS, mbpp).failed


def test_what_is_wrong_is_found():
    rows = [
        {**SQUARES, "task_id": "wrong", "canonical_solution": "    return 25\n"},
        {**SQUARES, "task_id": "raises", "canonical_solution": "    return numbers[0] ** 2 + numbers[1] ** 2\n"},
        {**SQUARES, "task_id": "loads not", "prompt": "import nowhere\n" + SQUARES["prompt"]},
        {**COOP_ROWS[0], "task_id": "none"},
        {
            **SQUARES,
            "task_id": "unreached",
            "test": "def check(candidate):\n    assert candidate([]) == 0\n    for n in []:\n        assert candidate(n) == n\n",
        },
    ]
    wrong, raises, loads, none, unreached = (report := checked(rows)).findings
    assert (wrong.passed, wrong.total) == (1, 4) and len(wrong.causes) == 3
    assert wrong.causes[0].startswith("assert candidate([7071]) == 49999041") and "failed" in wrong.causes[0]
    assert raises.passed == 2 - 1 + 1 and "error (IndexError" in raises.causes[0]
    assert len(loads.causes) == 1 and loads.causes[0].startswith("load_error: ModuleNotFoundError")
    assert not none.checked and not none.is_full and none.causes == () and none.constant == ("assert True",)
    assert unreached.unreached == ("assert candidate(n) == n",) and (unreached.passed, unreached.total) == (1, 2)
    assert [f.id for f in report.failed] == ["wrong", "raises", "loads not", "unreached"]
    lines = report.lines()
    assert lines[0] == "0 of 4 reference solutions reach full marks (0 counted tests passed)"
    assert "unchecked, since they have no reference solution: 1 rows (none)" in lines
    assert "asserts that are never reached: 1, in 1 rows (unreached)" in lines


def test_many_ids_are_not_all_listed():
    report = DatasetReport(tuple(Finding(str(i), checked=False) for i in range(9)))
    assert report.lines() == [
        "0 of 0 reference solutions reach full marks",
        "unchecked, since they have no reference solution: 9 rows (0, 1, 2, 3, 4, ...)",
    ]


# -- the command ------------------------------------------------------------------------------------------------------


def save(folder, rows):
    path = folder / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(path)


def test_the_command_on_humaneval(capsys):
    assert main(["check-data", "coding/humaneval-v0"]) == 0
    assert capsys.readouterr().out.startswith("164 of 164 reference solutions reach full marks")


def test_the_command_takes_data_and_arguments(capsys, tmp_path):
    path = save(tmp_path, HUMANEVAL_ROWS)
    assert main(["check-data", "coding/humaneval-v0", "--data", path, "--arg", "split=[:1]"]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 reference solutions")
    path = save(tmp_path, [{**SQUARES, "canonical_solution": "    return 0\n"}])
    assert main(["check-data", "coding/humaneval-v0", "--data", path]) == 1
    out = capsys.readouterr().out
    assert (
        out.startswith("0 of 1 reference")
        and "Own/0: 1 of 4 tests passed\n  assert candidate([3, 4]) == 25: failed" in out
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["coding/mbpp-v0", "--data", "nothing.json"], "nothing.json: no such file"),
        (["writing/tldr-v0"], "writing/tldr-v0 is no coding task"),
        (["probe/own-word-v0"], "probe/own-word-v0 is no coding task"),
        (["coding/humaneval-v0", "--arg", "num_helper=2"], "Did you mean 'num_helpers'"),
        (["coding/human-v0"], "Did you mean 'coding/humaneval-v0'"),
    ],
)
def test_wrong_input_exits_with_2(arguments, words, capsys):
    assert main(["check-data", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err


@pytest.mark.skipif(not SHARED.is_dir(), reason="the data sets are not here")
def test_the_other_data_sets():
    # Problem 123 needs more than the default 2 s of processor time on a slow machine.
    limits = {"cpu_seconds": 30, "total_cpu_seconds": 60, "wall_seconds": 120}
    env = mbpp.parallel_env(data=SHARED / "mbpp_sanitized.json", limits=limits)
    report = check_dataset(env.task, env.rows)
    # Their solutions return a match object, which is no value that crosses to the tests.
    assert [f.id for f in report.failed] == ["737", "787", "794"] and len(report.full) == 424
    assert all(
        "unsupported (the result cannot cross: a value of type Match)" in c for f in report.failed for c in f.causes
    )
    env = coop_humaneval.parallel_env(data=SHARED / "coop_humaneval.json")
    report = check_dataset(env.task, env.rows)
    assert len(report.unchecked) == 82 and not report.failed

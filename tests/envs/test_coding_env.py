"""The coding environments played in the real sandbox: what programs earn, early finishes, and that nothing leaks."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys

import pytest
from coding_rows import ALMOST, AUX, HUMANEVAL_ROWS, MBPP_ROWS, NOTHING, SOLVED, SQUARES, UNSHIFT, keywords

from llm_marl_envs import ParallelVectorEnv, check_env, make
from llm_marl_envs.coding import coop_humaneval, humaneval, mbpp
from llm_marl_envs.errors import DataError
from llm_marl_envs.feedback import MODES

IDS = ["coding/coop-humaneval-v0", "coding/humaneval-v0", "coding/mbpp-v0"]
TERMS = ["helper_defined", "main_defined", "parses", "tests", "uses_helper", "not_thin", "ignored"]
# f(x) = 2 x + 1, with aux(x) = 2 x.
LINE = {
    "task_id": "Own/line",
    "prompt": 'def line(x):\n    """ Twice x, plus one. """\n',
    "entry_point": "line",
    "test": "def check(candidate):\n    assert candidate(0) == 1\n    assert candidate(4) == 9\n",
}
DOUBLE = "def aux(x):\n    return 2 * x"


def play(env, *turns, **reset):
    """What each turn returned."""
    env.reset(**(reset or {"options": {"index": 0}}))
    return [env.step(actions) for actions in turns]


def terms_of(main, helper=DOUBLE, rows=(LINE,), **kwargs):
    env = humaneval.parallel_env(data=list(rows), **kwargs)
    ((_, _, _, _, infos),) = play(env, {"helper": helper, "main": main})
    assert list(infos["main"]["terms"]) == TERMS
    return [round(value, 6) for value in infos["main"]["terms"].values()]


# -- what programs earn -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("helper", "main", "expected"),
    [
        (DOUBLE, "def line(x):\n    return aux(x) + 1", [0.4, 0.6, 0.5, 1, 0.5, 1, 0]),
        (f"Here:\n```python\n{DOUBLE}\n```", "```\ndef line(x):\n    return aux(x) + 1\n```", [0.4, 0.6, 0.5, 1, 0.5, 1, 0]),
        (DOUBLE, "def line(x):\n    return aux(x) if x else 1", [0.4, 0.6, 0.5, 0.5, 0, 0, 0]),
        (DOUBLE, "def line(x):\n    return aux(x) + 9", [0.4, 0.6, 0.5, 0, 0, 0, 0]),
        ("", "def line(x):\n    return 2 * x + 1", [0, 0.6, 0.5, 1, 0, 0, 0]),
        ("def aux(x):\n    pass", "def line(x):\n    aux(x)\n    return 2 * x + 1", [0, 0.6, 0.5, 1, 0, 0, 0]),
        (DOUBLE, "def lines(x):\n    return aux(x) + 1", [0.4, 0, 0, 0, 0, 0, 0]),
        (DOUBLE, "def line(x):\n    print(x)", [0.4, 0, 0, 0, 0, 0, 0]),
        ("def aux(x) return x", "def line(x):\n    return 2 * x + 1", [0, 0.6, 0, 0, 0, 0, 0]),
        ("", "", [0] * 7),
        (DOUBLE, "def line(x):\n    import os\n    os._exit(0)\n    return aux(x) + 1", [0.4, 0.6, 0.5, 0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_levels(helper, main, expected):
    assert terms_of(main, helper) == expected


# The examples of the page, and more of each kind: what a use of aux is worth beyond `tests`.
USES = {
    "def line(x):\n    return aux(x) + 1": 1.5,
    "def line(x):\n    y = aux(x)\n    y += 1\n    return y": 1.5,
    "def more(x):\n    return aux(x)\n\ndef line(x):\n    return more(x) + 1": 1.5,
    "def line(x):\n    aux(x)\n    return 2 * x + 1": 1.0,
    "def line(x):\n    _ = aux(x)\n    return 2 * x + 1": 1.0,
    "def line(x):\n    return 2 * x + 1  # aux(x)": 0.0,
    "def line(x):\n    'aux(x)'\n    return 2 * x + 1": 0.0,
    "def line(x):\n    return 2 * x + 1 if x == x else aux(x)": 0.0,
    "def line(x):\n    return 2 * x + 1\n    return aux(x)": 0.0,
    "def aux(x):\n    return 2 * x\n\ndef line(x):\n    return aux(x) + 1": 0.0,
    "aux = abs\n\ndef line(x):\n    return aux(2 * x) + 1": 0.0,
    "def line(x):\n    f = lambda: aux(x)\n    return 2 * x + 1": 0.0,
}
THIN = [  # of an aux that does all the work
    "def line(x):\n    return aux(x)",
    "def line(x):\n    '''Doc.'''\n    result = aux(x)\n    return result",
    "def line(x):\n    a = aux\n    b = a(x)\n    return (b)",
    "def line(number):\n    # a comment\n\n    return (\n        aux(number)\n    )",
]


@pytest.mark.parametrize("main", USES)
def test_the_use_of_the_helper(main):
    earned = terms_of(main)
    assert earned[:4] == [0.4, 0.6, 0.5, 1.0]
    assert sum(earned[4:]) == pytest.approx(USES[main])


@pytest.mark.parametrize("main", THIN)
def test_thin_wrappers(main):
    assert terms_of(main, "def aux(x):\n    return 2 * x + 1") == [0.4, 0.6, 0.5, 1, 0.5, 0, 0]


def test_the_prompts_own_functions_and_imports_may_be_used():
    main = "def unshift(text):\n    return ''.join(LETTERS[(LETTERS.index(c) + aux(3)) % 26] for c in text)"
    assert terms_of(main, "def aux(n):\n    return -n", rows=[UNSHIFT]) == [0.4, 0.6, 0.5, 1, 0.5, 1, 0]
    # A test's `shift` is the problem's own, whatever the program makes of that name.
    bad = f"def shift(text):\n    return text\n\n{main}"
    assert terms_of(bad, "def aux(n):\n    return -n", rows=[UNSHIFT])[3] == 1.0


def test_several_helpers():
    env = humaneval.parallel_env(data=[LINE], num_helpers=2)
    actions = {
        "helper_1": "def aux_1(x):\n    return 2 * x",
        "helper_2": "def aux_2(x):\n    return x + 1",
        "main": "def line(x):\n    return aux_2(aux_1(x))",
    }
    ((_, rewards, terminations, _, infos),) = play(env, actions)
    assert infos["main"]["details"]["helper_called"] == {"aux_1": True, "aux_2": True}
    assert rewards == dict.fromkeys(actions, infos["main"]["score"]) and terminations["helper_2"]
    ((_, _, _, _, infos),) = play(env, {**actions, "main": "def line(x):\n    return aux_1(x) + 1"})
    assert infos["main"]["terms"]["uses_helper"] == 0.25 and infos["main"]["score"] == 3.25


def test_programs_without_an_end_are_data():
    limits = {"cpu_seconds": 0.3, "total_cpu_seconds": 1.0}
    env = humaneval.parallel_env(data=[LINE], limits=limits)
    ((_, _, _, _, infos),) = play(
        env, {"helper": DOUBLE, "main": "def line(x):\n    while x: pass\n    return aux(x) + 1"}
    )
    details = infos["main"]["details"]
    assert (details["passed"], details["total"], details["timeouts"]) == (1, 2, 1) and details["kind"] == "ok"


def test_an_object_that_equals_everything_passes_nothing():
    main = "class Yes:\n    def __eq__(self, other):\n        return True\n\ndef line(x):\n    return Yes()"
    assert terms_of(main)[3] == 0.0


def test_scores_do_not_raise_whatever_the_text():
    env = humaneval.parallel_env(data=[LINE])
    for text in [
        "\x00",
        "\ufeffdef line(x):\n    return 1",
        "\u2028" * 50,
        "(" * 5000,
        "```" * 99,
        "def " * 2000,
        "\\",
        "é" * 65_536,
    ]:
        ((_, rewards, *_),) = play(env, {"helper": text, "main": text})
        assert 0 <= rewards["main"] <= 4  # fmt: skip


def test_an_assert_that_is_never_reached_does_not_pass():
    row = {
        **LINE,
        "test": "def check(candidate):\n    def unused():\n        x = 1\n        assert x\n    assert True\n",
    }
    env = humaneval.parallel_env(data=[row])
    ((_, _, _, _, infos),) = play(env, SOLVED)
    assert infos["main"]["details"]["total"] == 1 and infos["main"]["details"]["passed"] == 0


# -- episodes -----------------------------------------------------------------------------------------------------------


def test_solving_at_the_first_turn_beats_3_5_and_then_4():
    def returns(*turns):
        env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_turns=2)
        played = play(env, *turns)
        assert not env.agents
        scores = [infos["main"]["score"] for *_, infos in played]
        return scores, sum(rewards["main"] for _, rewards, *_ in played)

    (first, at_once), (second, later) = returns(SOLVED), returns(ALMOST, SOLVED)
    assert first == [4.0] and second == [3.5, 4.0]
    assert (at_once, later) == (0.0, -0.5)
    assert returns(NOTHING, SOLVED) == ([0.0, 4.0], -4.0)
    assert returns(ALMOST, ALMOST) == ([3.5, 3.5], -1.0)


@pytest.mark.parametrize("turn_reward", ["offset", "sum", "last"])
def test_individual_rewards_add_up(turn_reward):
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_turns=2, reward_mode="individual", turn_reward=turn_reward)
    one, two = play(env, ALMOST, SOLVED)
    expected = {"offset": (-0.5, 0.0), "sum": (3.5, 4.0), "last": (0.0, 4.0)}[turn_reward]
    assert (sum(one[1].values()), sum(two[1].values())) == pytest.approx(expected)
    if turn_reward == "sum":
        assert one[1] == {"helper": pytest.approx(1.65), "main": pytest.approx(1.85)}
        assert two[1] == {"helper": pytest.approx(1.9), "main": pytest.approx(2.1)}


def test_weights():
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, weights={"not_thin": 0.0, "tests": 2.0})
    ((_, rewards, *_),) = play(env, SOLVED)
    assert env.max_score == 4.0 and rewards["main"] == pytest.approx(4.0)


def test_many_environments_score_at_once():
    envs = ParallelVectorEnv(lambda: humaneval.parallel_env(data=HUMANEVAL_ROWS, split="[:1]"), 6)
    envs.reset(seed=0)
    actions = [SOLVED, ALMOST, NOTHING] * 2
    *_, infos = envs.step(actions)
    assert [info["main"]["score"] for info in infos] == [4.0, 3.5, 0.0] * 2


@pytest.mark.parametrize("env_id", IDS)
def test_check_env(env_id):
    options = {"num_turns": 2, "history": "full", "share_responses": True, "max_text_length": 2000}
    env = make(env_id, **keywords(env_id), feedback="diagnosis", reward_mode="individual", num_helpers=2, **options)
    assert check_env(env) == []


@pytest.mark.parametrize("module", [humaneval, coop_humaneval, mbpp])
def test_the_example_on_the_page_is_real(module):
    result = doctest.testmod(module)
    assert result.attempted >= 7 and result.failed == 0


# -- what is imported -----------------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
for name in ("resource", "fcntl", "pwd", "termios", "grp"):
    sys.modules[name] = None  # as on a system that is not POSIX
import llm_marl_envs as m
rows = json.loads(sys.stdin.read())
seen = {}
for env_id, data in rows.items():
    env = m.make(env_id, data=data, limits={"cpu_seconds": 1}, num_turns=2)
    seen[env_id] = env.reset(seed=0)[0]["main"]
    env.clone().state()
print(json.dumps([seen, "llm_marl_envs.sandbox.pool" in sys.modules]))
"""


def test_environments_are_made_and_reset_without_what_runs_programs():
    rows = {"coding/humaneval-v0": HUMANEVAL_ROWS, "coding/mbpp-v0": MBPP_ROWS}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(rows), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen, ran = json.loads(done.stdout)
    assert not ran and all("Write the whole function" in prompt for prompt in seen.values())


# -- nothing leaks --------------------------------------------------------------------------------------------------------

# Programs that are wrong in every way, some of which try to tell what they are called with.
WRONG = {
    "nothing": {"helper": "", "main": ""},
    "syntax": {"helper": "def aux(", "main": "def sum_of_squares(numbers):\n  return (\n"},
    "load error": {"helper": AUX, "main": "def sum_of_squares(numbers):\n    return 1\nraise ValueError('x')"},
    "wrong result": {"helper": AUX, "main": "def sum_of_squares(numbers):\n    return aux(-5)"},
    "raises its arguments": {
        "helper": AUX,
        "main": "def sum_of_squares(numbers):\n    raise ValueError(f'called with {numbers}')\n    return 0",
    },
    "returns its arguments": {"helper": AUX, "main": "def sum_of_squares(numbers):\n    return str(numbers) * 3"},
    "an exception named after its arguments": {
        "helper": AUX,
        "main": (
            "def sum_of_squares(numbers):\n    raise type('E_' + '_'.join(map(str, numbers)), (Exception,), {})()\n"
            "    return 0"
        ),
    },
    "remembers": {
        "helper": AUX,
        "main": (
            "SEEN = []\n\n\ndef sum_of_squares(numbers):\n    SEEN.append(numbers)\n"
            "    if len(SEEN) > 3:\n        raise KeyError(SEEN)\n    return SEEN"
        ),
    },
    "ends": {"helper": AUX, "main": "def sum_of_squares(numbers):\n    import os\n    os._exit(7)\n    return 0"},
    "prints": {
        "helper": AUX,
        "main": "def sum_of_squares(numbers):\n    import sys\n    print(numbers, file=sys.stderr)\n    return None or 0",
    },
}
HIDDEN = {
    "first": ["7071", "49999041", "a large number", "8080", "65286401"],
    "last": ["7071", "49999041", "a large number"],
}


def advise(question):
    """An expert that proposes what it was asked, whole."""
    return question


@pytest.mark.parametrize("mode", [*MODES, "coding_expert"])
@pytest.mark.parametrize("visible", [0, 1, "last:1"])
def test_hidden_tests_never_leak(mode, visible):
    extra = {"feedback_kwargs": {"propose": advise}} if "expert" in mode else {}
    env = humaneval.parallel_env(
        data=[SQUARES],
        num_turns=len(WRONG),
        visible_tests=visible,
        feedback=mode.removeprefix("coding_"),
        history="full" if mode == "coding_expert" else "none",
        share_responses=True,
        render_mode="ansi",
        **extra,
    )
    shown = [env.reset(seed=0), env.state(), env.render()]
    for actions in WRONG.values():
        shown += [env.step(actions), env.state(), env.render(), env.turns, env.clone().state()]
    assert not env.agents
    said = repr(shown)
    for secret in HIDDEN["last" if visible == "last:1" else "first"]:
        assert secret not in said, secret
    # What is visible is told, so that the search above looks at the right thing.
    told = {0: None, 1: "assert candidate([3, 4]) == 25", "last:1": "assert candidate([-8080, 1]) == 65286401"}[visible]
    assert told is None or told in said
    if visible == 0:
        assert "assert candidate" not in said


def test_all_tests_are_told_where_all_are_visible():
    env = humaneval.parallel_env(data=[SQUARES], num_turns=2, visible_tests="all", feedback="diagnosis")
    (step,) = play(env, WRONG["wrong result"])
    assert all(secret in step[0]["helper"] for secret in ("7071", "49999041", "8080", "65286401"))


def test_unknown_isolation_is_an_error_and_not_a_score():
    env = humaneval.parallel_env(data=[LINE], isolation="strickt")
    env.reset(seed=0)
    with pytest.raises(LookupError, match="strickt"):
        env.step(SOLVED)
    assert env.agents == ["helper", "main"] and env.turns == ()


def test_bad_rows_are_an_error_and_not_a_score(monkeypatch):
    from llm_marl_envs import sandbox
    from llm_marl_envs.sandbox.programs import PartFacts, Structure, Verdict

    empty = Verdict("ok", "", Structure(PartFacts("line", "", True, True)), ())
    monkeypatch.setattr(sandbox, "check", lambda *args: empty)
    env = humaneval.parallel_env(data=[LINE])
    env.reset(seed=0)
    with pytest.raises(DataError, match="row 'Own/line': its tests have no assert"):
        env.step(SOLVED)

"""`python -m llm_marl_envs`: what a user types, right and wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
import toys
from coding_rows import arguments as data_arguments

from llm_marl_envs import __version__, make, register
from llm_marl_envs.__main__ import main
from llm_marl_envs.registry import BUILT_IN, ENVIRONMENTS


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "llm_marl_envs", *arguments], capture_output=True, text=True, check=False
    )


def test_list_as_a_user_types_it():
    done = run("list")
    assert done.returncode == 0 and done.stderr == ""
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(BUILT_IN)


def test_show_prints_what_every_agent_sees(capsys):
    assert main(["show", "writing/tldr-v0", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "writing/tldr-v0, seed 3; agents: summarizer, elaborator" in out
    for agent, observation in make("writing/tldr-v0").reset(seed=3)[0].items():
        assert f"== {agent} sees ==\n{observation}" in out


def test_show_passes_arguments_on(capsys):
    assert main(["show", "probe/own-word-v0", "--arg", "num_agents=3", "--arg", "history=full"]) == 0
    assert "== agent_3 sees ==" in capsys.readouterr().out


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_check_says_that_it_passed(env_id, capsys, tmp_path):
    assert main(["check", env_id, *data_arguments(env_id, tmp_path)]) == 0
    assert capsys.readouterr().out == f"{env_id}: passed\n"


class Leaky(toys.CollaborationEnv):
    clone = None

    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return observations, {agent: {"row": "text"} for agent in infos}


def leaky(**kwargs):
    return Leaky(toys.LettersTask(), toys.load_rows(toys.ROWS), **kwargs)


def said(capsys):
    """What was printed, without the breaks of lines."""
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def clean_table(monkeypatch):
    """Whatever a test registers is forgotten after it; PettingZoo's registry forgets nothing, and hears nothing."""
    monkeypatch.setattr(ENVIRONMENTS, "_entries", dict(ENVIRONMENTS._entries))
    monkeypatch.setattr("llm_marl_envs.registry._pettingzoo_register", None)


def test_a_failed_check_exits_with_1_and_lenient_prints_notes(capsys, clean_table):
    register("toy/leaky-v0", leaky)
    assert main(["check", "toy/leaky-v0"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("toy/leaky-v0: FAILED, 2 things to mend\n\n1. infos['left']['row'] at reset is 'text'")
    assert "\n   Mend: At reset they must be empty or numeric" in out and "\n2. clone() raised TypeError" in out
    assert main(["check", "toy/leaky-v0", "--lenient"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("toy/leaky-v0: passed\n\nnote: infos['left']['row'] at reset is 'text'")
    assert out.count("note: ") == 2


# -- a module of a newcomer ---------------------------------------------------------------------------------------------

MINE = """
import toys
from llm_marl_envs import register

class Poem(toys.LettersTask):
    def score(self, row, responses):
        return super().score(row, {"left": responses["lefty"], "right": ""})

def poem(topic, **kwargs):
    return toys.toy(Poem(), **kwargs)

def letters(**kwargs):
    return toys.toy(**kwargs)

def forgetful(**kwargs):
    toys.toy(**kwargs)

register("mine/poem-v0", poem)
register("mine/letters-v0", "poems_of_somebody:letters")
register("mine/forgetful-v0", forgetful)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch, clean_table):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "poems_of_somebody.py"
    file.write_text(MINE)
    yield file
    sys.modules.pop("poems_of_somebody", None)


def test_what_an_environment_raises_is_told_with_the_authors_own_line(mine, capsys):
    assert main(["check", "poems_of_somebody:mine/poem-v0", "--arg", "topic=rain"]) == 1
    text = said(capsys)
    assert "FAILED, 1 thing to mend 1. Step 1 after reset(seed=7) raised KeyError: 'lefty'" in text
    assert "(in poems_of_somebody.py, line 7, score(): 'return super().score(row, " in text
    assert "the actions were {'left': " in text and "whatever text a model writes is data" in text


def test_an_argument_that_is_missing(mine, capsys):
    assert main(["check", "poems_of_somebody:mine/poem-v0"]) == 2
    words = capsys.readouterr().err
    assert "mine/poem-v0 cannot be made without topic" in words and "--arg topic=" in words


def test_a_function_that_returns_nothing(mine, capsys):
    assert main(["check", "poems_of_somebody:mine/forgetful-v0"]) == 2
    assert "function of mine/forgetful-v0 returned None" in capsys.readouterr().err


def test_an_id_that_the_module_does_not_register(mine, capsys):
    assert main(["check", "poems_of_somebody:mine/leters-v0"]) == 2
    words = capsys.readouterr().err
    assert "Module 'poems_of_somebody' registers no environment 'mine/leters-v0'" in words
    assert (
        "Did you mean 'mine/letters-v0'" in words
        and "registers: mine/forgetful-v0, mine/letters-v0, mine/poem-v0." in words
    )
    assert "writing/tldr" not in words
    assert main(["check", "poems_of_somebody:mine/letters-v1"]) == 2
    assert "this release has 'mine/letters-v0'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize(
    "code, words",
    [
        ("x = 1\ndef poem(:\n", "SyntaxError: invalid syntax (in poems_of_somebody.py, line 2: 'def poem(:')"),
        (
            "x = 1\ny = x / 0\n",
            "ZeroDivisionError: division by zero (in poems_of_somebody.py, line 2, <module>(): 'y = x / 0')",
        ),
    ],
)
def test_a_module_that_cannot_be_imported(mine, capsys, command, code, words):
    mine.write_text(code)
    assert main([command, "poems_of_somebody:mine/poem-v0"]) == 1
    assert words in said(capsys)


def test_a_view_of_integers_is_checked_leniently(mine, capsys):
    mine.write_text(
        "import toys\nfrom llm_marl_envs import register\nfrom llm_marl_envs.wrappers import TokenView\n"
        "register('mine/tokens-v0', lambda: TokenView(toys.toy(max_text_length=256), length=8))\n"
    )
    assert main(["check", "poems_of_somebody:mine/tokens-v0"]) == 1
    assert "check it with strict=False, or --lenient" in said(capsys)
    assert main(["check", "poems_of_somebody:mine/tokens-v0", "--lenient"]) == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["show", "writing/tdlr-v0"], "Did you mean 'writing/tldr-v0'"),
        (["check", "nowhere:x/y-v0"], "no module 'nowhere'"),
        (
            ["show", "probe/own-word-v0", "--arg", "num_agent=3"],
            "takes no keyword 'num_agent'. Did you mean 'num_agents'",
        ),
        (["show", "probe/own-word-v0", "--arg", "num_agents=many"], "num_agents must be a whole number"),
        (["show", "probe/own-word-v0", "--arg", "history"], "NAME=VALUE, not 'history'"),
        (["show", "writing/tldr-v0", "--arg", "data=nothing.csv"], "nothing.csv: no such file"),
        (["show", "writing/tldr-v0", "--arg", "split=train[1000:]"], "leaves none of its 48 rows"),
    ],
)
def test_wrong_input_exits_with_2_and_a_remedy(arguments, words, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ") and words in captured.err


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "COMMAND"),
        (["lsit"], "invalid choice: 'lsit'"),
        (["show"], "ID"),
        (["show", "probe/own-word-v0", "--seed", "-1"], "a whole number of at least 0, not '-1'"),
        (["show", "probe/own-word-v0", "--seed", "x"], "not 'x'"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2 and words in capsys.readouterr().err


def test_no_traceback_reaches_the_user():
    done = run("show", "probe/own-wrod-v0")
    assert done.returncode == 2 and "Traceback" not in done.stderr and "Did you mean" in done.stderr


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out == f"llm-marl-envs {__version__}\n"

"""`python -m llm_marl_envs`: what a user types, right and wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
import toys
from coding_rows import arguments as data_arguments

from llm_marl_envs import __version__, make, register, registered
from llm_marl_envs.__main__ import main
from llm_marl_envs.registry import ENVIRONMENTS


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "llm_marl_envs", *arguments], capture_output=True, text=True, check=False
    )


def test_list_as_a_user_types_it():
    done = run("list")
    assert done.returncode == 0 and done.stderr == ""
    assert [line.split()[0] for line in done.stdout.splitlines()] == registered()


def test_show_prints_what_every_agent_sees(capsys):
    assert main(["show", "writing/tldr-v0", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert "writing/tldr-v0, seed 3; agents: summarizer, elaborator" in out
    for agent, observation in make("writing/tldr-v0").reset(seed=3)[0].items():
        assert f"== {agent} sees ==\n{observation}" in out


def test_show_passes_arguments_on(capsys):
    assert main(["show", "probe/own-word-v0", "--arg", "num_agents=3", "--arg", "history=full"]) == 0
    assert "== agent_3 sees ==" in capsys.readouterr().out


@pytest.mark.parametrize("env_id", registered())
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


def test_a_failed_check_exits_with_1_and_lenient_prints_notes(capsys, monkeypatch):
    monkeypatch.setattr(ENVIRONMENTS, "_entries", dict(ENVIRONMENTS._entries))
    register("toy/leaky-v0", leaky)
    assert main(["check", "toy/leaky-v0"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("toy/leaky-v0: FAILED\n") and "at reset is 'text'" in out
    assert main(["check", "toy/leaky-v0", "--lenient"]) == 0
    out = capsys.readouterr().out
    assert "toy/leaky-v0: passed\n" in out and "note: Infos['left']['row'] at reset is 'text'" in out


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

"""Training from Python does what the command line does, and says what is wrong in the same words."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import llm_marl_baselines
from llm_marl_baselines import cli, resume, train
from llm_marl_baselines.checkpoint import complete
from llm_marl_baselines.errors import Interrupted
from llm_marl_baselines.logged import Logged
from llm_marl_baselines.trainer import Trainer
from llm_marl_envs import register
from llm_marl_envs.errors import ConfigError, UnknownNameError
from llm_marl_envs.probes import own_word
from llm_marl_envs.registry import ENVIRONMENTS

SHORT = {"env": "probe/own-word-v0", "model": "tiny", "steps": 2, "eval_episodes": 2, "trackers": []}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def logs(run: Path) -> tuple[bytes, bytes]:
    return (run / "metrics.jsonl").read_bytes(), (run / "samples.jsonl").read_bytes()


def config(run: Path) -> dict:
    return yaml.safe_load((run / "config.yaml").read_text())


def test_it_does_what_the_command_line_does():
    run = train("magrpo", **SHORT, output="a", optim={"lr": 0.01}, algorithm={"group_size": 3})
    assert run == Path("a")
    args = "--env probe/own-word-v0 --model tiny --steps 2 --eval_episodes 2 --trackers [] --optim.lr 0.01"
    assert cli.main(["train", "magrpo", *args.split(), "--algorithm.group_size", "3", "--output", "b"]) == 0
    assert logs(Path("a")) == logs(Path("b"))
    assert config(Path("a")) == {**config(Path("b")), "output": "a"}


def test_the_folder_is_made_and_named_as_by_the_command_line():
    run = train("marloo", **SHORT, seed=3, eval_every=-1)
    assert run == Path("runs/marloo-own-word-v0-tiny-seed3")
    assert config(run)["algorithm"]["baseline"] == "loo"  # the packaged settings of a preset


def test_a_configuration_gives_what_is_not_given():
    run = train("magrpo", config="marloo", **SHORT, eval_every=-1)
    assert config(run)["algorithm"]["baseline"] == "loo"
    Path("mine.yaml").write_text("env: writing/tldr-v0\nsteps: 9\nseed: 5\nalgorithm:\n  group_size: 7\n  gamma: 0.5\n")
    run = train("magrpo", config=Path("mine.yaml"), **SHORT, eval_every=-1, algorithm={"group_size": 2})
    found = config(run)
    assert found["seed"] == 5 and found["algorithm"]["gamma"] == 0.5  # the file's
    assert found["env"] == "probe/own-word-v0" and found["steps"] == 2 and found["algorithm"]["group_size"] == 2


def test_paths_and_tuples_are_plain_values():
    first = train("magrpo", **SHORT, output=Path("first"), eval_every=-1)
    partner = {"agent_2": f"frozen:{first}"}
    again = train("magrpo", **SHORT, policy={"agent_1": first, **partner}, optim={"betas": (0.8, 0.9)})
    assert config(again)["optim"]["betas"] == [0.8, 0.9]
    assert Path(config(again)["policy"]["agent_1"]).samefile(first)


def test_an_environment_that_was_registered_here_can_be_trained():
    register("here/own-word-v0", lambda **kwargs: own_word(num_agents=3, **kwargs))
    try:
        run = train("magrpo", **{**SHORT, "env": "here/own-word-v0"}, eval_every=-1)
    finally:
        ENVIRONMENTS._entries.pop("here/own-word-v0")
    assert {f"agent_{i}/loss" for i in (1, 2, 3)} <= set(Logged.read(run).of_phase("train")[2])


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"stepz": 3}, ["stepz", "Did you mean 'steps'?"]),
        ({"optim": {"lrr": 3}}, ["optim.lrr", "Did you mean 'optim.lr'?"]),
        ({"steps": "many"}, ["steps", "many"]),
        ({"steps": -1}, ["steps must be at least 0"]),
        ({"trackers": ["tensorbord"]}, ["Did you mean 'tensorboard'?"]),
        ({"env_args": {"feedback": len}}, ["built-in function len", "package.module:name", "register"]),
        ({"steps": {1, 2}}, ["{1, 2}", "Convert it"]),
        ({"config": "magrpo-smal"}, ["Did you mean 'magrpo-small'?"]),
    ],
)
def test_what_is_wrong_is_named_before_a_folder_is_made(settings, words):
    with pytest.raises(ConfigError) as error:
        train("magrpo", **{**SHORT, **settings})
    assert all(word in str(error.value) for word in words), error.value
    assert not list(Path().iterdir())


def test_unknown_names_and_missing_settings():
    with pytest.raises(UnknownNameError, match="Did you mean 'magrpo'"):
        train("magrp", **SHORT)
    with pytest.raises(ConfigError, match="env"):
        train("magrpo", model="tiny")
    with pytest.raises(TypeError):  # not a setting: it would be left out of the config.yaml
        train(name="magrpo", **SHORT)


def test_a_folder_that_is_taken_stays_as_it_is():
    run = train("magrpo", **SHORT, output="run", eval_every=-1)
    before = logs(run)
    with pytest.raises(ConfigError, match="another run"):
        train("magrpo", **SHORT, output="run")
    assert logs(run) == before


def test_a_stopped_run_says_how_to_go_on_and_ends_as_if_it_had_not_been():
    whole = train("magrpo", **{**SHORT, "steps": 4}, output="whole")

    original = Trainer.starts

    def interrupted(self, step):
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "starts", interrupted)
        with pytest.raises(Interrupted, match=r"after step 2 of 4.*resume\('stopped'\)"):
            train("magrpo", **{**SHORT, "steps": 4}, output="stopped")
    assert resume("stopped") == Path("stopped")
    assert logs(Path("stopped")) == logs(whole)
    assert [p.name for p in complete(Path("stopped"))] == ["step-000002", "step-000004"]


def test_only_runs_can_be_resumed():
    with pytest.raises(ConfigError, match="holds no run"):
        resume("nowhere")
    run = train("magrpo", **SHORT, output="run", eval_every=-1)
    before = logs(run)
    shutil.copytree(run, "copy")
    assert logs(resume(Path("copy"))) == before  # there is nothing left to do


def test_the_import_is_light_and_offers_what_it_says():
    program = (
        "import sys, llm_marl_baselines as b; print('torch' in sys.modules, b.train.__name__, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "train", "True"]
    for name in llm_marl_baselines.__all__:
        assert callable(getattr(llm_marl_baselines, name))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = llm_marl_baselines.trian

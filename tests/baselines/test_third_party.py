"""An outsider's environment and algorithm, in a module of its own, trained from the command line."""

import json

import pytest
from modules import importable

from llm_marl_baselines import cli

MODULE = '''
from gymnasium.spaces import Text
from llm_marl_envs import register
from pettingzoo import ParallelEnv

from llm_marl_baselines.algorithms.magrpo import MAGRPO


class Echo(ParallelEnv):
    """Both are paid for the letter B; the episode has two turns; nothing of ours is used."""

    metadata = {"name": "echo"}
    render_mode = None
    possible_agents = ["left", "right"]

    def __init__(self, bonus=0.0):
        self.bonus = bonus

    def observation_space(self, agent):
        return Text(40, charset="abcdefghijklmnopqrstuvwxyz ABCD0123456789.:?")

    def action_space(self, agent):
        return Text(1, min_length=0, charset="ABCD1234?")

    def reset(self, seed=None, options=None):
        self.agents, self.turn = list(self.possible_agents), 0
        return {a: "say A B C or D" for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self.turn += 1
        agents, over = self.agents, self.turn == 2
        paid = sum(t == "B" for t in actions.values()) / 2 + self.bonus
        if over:
            self.agents = []
        return (
            {a: "again: A B C or D" for a in agents},
            dict.fromkeys(agents, paid),
            dict.fromkeys(agents, over),
            dict.fromkeys(agents, False),
            {a: {} for a in agents},
        )


class Doubled(MAGRPO):
    """MAGRPO with every advantage doubled."""

    def advantages(self, batch):
        return 2 * super().advantages(batch)


register("outside/echo-v0", Echo)
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Imported once: the second registration of an id is a warning of PettingZoo."""
    with importable(tmp_path_factory.mktemp("outside"), "outside_module", MODULE):
        yield
    from llm_marl_envs.registry import ENVIRONMENTS

    ENVIRONMENTS._entries.pop("outside/echo-v0", None)


@pytest.fixture
def outside(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_resume_and_eval_from_the_command_line(outside, capsys):
    args = "train outside_module:Doubled --env outside_module:outside/echo-v0 --model tiny --steps 40 --seed 1 --output run"
    assert cli.main([*args.split(), "--trackers", "[]", "--env_args.bonus", "0.25", "--algorithm.group_size", "6"]) == 0
    records = [json.loads(line) for line in (outside / "run" / "metrics.jsonl").read_text().splitlines()]
    before, after = (r for r in records if r["phase"] == "eval")
    assert after["score"] > before["score"] + 0.5
    assert "percent" not in after  # the environment states no maximum
    assert records[2]["joint_actions"] == 2 * (6 + 36)
    assert cli.main(["eval", "run"]) == 0
    assert cli.main(["train", "--resume", "run"]) == 0


@pytest.mark.parametrize("name", ["marloo", "maremax", "counterfactual", "igrpo", "maac", "iac", "mappo"])
def test_every_family_trains_in_an_outsiders_environment(outside, name):
    """It has no clone, no state and no score: branches are replayed."""
    args = f"train {name} --env outside_module:outside/echo-v0 --model tiny --steps 2 --eval_every -1 --output {name}"
    assert cli.main([*args.split(), "--trackers", "[]"]) == 0
    records = [json.loads(line) for line in (outside / name / "metrics.jsonl").read_text().splitlines()]
    assert len(records) == 2 and all(r["right/grad_norm"] >= 0 and r["joint_actions"] >= 8 for r in records)


def test_a_critic_of_the_state_needs_one(outside, capsys):
    args = "train maac --env outside_module:outside/echo-v0 --model tiny --steps 1 --eval_every -1 --output run"
    assert cli.main([*args.split(), "--trackers", "[]", "--algorithm.critic_input", "state"]) == 2
    assert "no state()" in capsys.readouterr().err


def test_a_module_that_is_not_there(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main("train magrpo --env nowhere_at_all:x/y-v0 --model tiny".split()) == 2
    assert "nowhere_at_all" in capsys.readouterr().err
    assert cli.main("train nowhere_at_all:Thing --env probe/own-word-v0 --model tiny".split()) == 2
    assert "nowhere_at_all" in capsys.readouterr().err

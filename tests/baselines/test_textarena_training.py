"""Agents are trained in games of TextArena, from the command line: a game of the test's own, and TicTacToe."""

from __future__ import annotations

import json

import pytest
from modules import importable
from usage import fails

from llm_marl_baselines import cli

pytest.importorskip("textarena")

ENV = "llm_marl_envs.integrations.textarena:textarena/game-v0"
MODULE = '''
import textarena as ta


class Letters(ta.Env):
    """Player 0 writes a letter and player 1 answers it, unseen. Each B is worth a half to both."""

    def reset(self, num_players, seed=None):
        self.state = ta.TwoPlayerState(num_players=num_players, seed=seed)
        self.state.reset(player_prompt_function=lambda player_id, game_state: f"Player {player_id + 1}: A B C or D")
        self.right = 0

    def step(self, action):
        self.right += action == "B"
        if self.state.current_player_id == 1:
            self.state.rewards = dict.fromkeys(range(2), self.right / 2)
            self.state.done = True
        return self.state.step()


ta.register("Letters-v0", Letters)
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    with importable(tmp_path_factory.mktemp("letters"), "letters_game", MODULE):
        yield
    import textarena

    textarena.envs.registration.ENV_REGISTRY.pop("Letters-v0", None)


@pytest.fixture
def folder(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(algorithm, env_args, *more):
    return [
        *["train", algorithm, "--env", ENV, "--env_args", json.dumps(env_args), "--model", "tiny"],
        *["--sampling.max_new_tokens", "1", "--trackers", "[]", "--output", "run", *more],
    ]


def records(folder):
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def test_magrpo_learns_a_cooperative_game(folder):
    steps = ["--steps", "10", "--seed", "1", "--algorithm.group_size", "4", "--eval_rows", "4", "--eval_episodes", "4"]
    assert cli.main(train("magrpo", {"game": "letters_game:Letters-v0"}, *steps)) == 0
    found = records(folder)
    before, after = (r for r in found if r["phase"] == "eval")
    assert after["score"] > before["score"] + 0.5
    assert after["term/player_0"] == after["term/player_1"] == after["score"]
    trained = [r for r in found if r["phase"] == "train"]
    assert trained[0]["joint_actions"] == 2 * (4 + 16)  # 2 rows, and one player a step: 4 branches at each of 2 steps
    assert trained[-1]["score"] > 0.8  # of the last moves, which alone have one
    assert cli.main(["eval", "run"]) == 0


def test_own_rewards_of_a_real_game(folder, capsys):
    """In TicTacToe what one wins the other loses: igrpo gives each its own, and MAGRPO wants to be told."""
    args = {"game": "TicTacToe-v0", "num_turns": 4}
    assert cli.main(train("igrpo", args, "--steps", "2", "--eval_every", "-1", "--algorithm.group_size", "3")) == 0
    found = records(folder)
    assert len(found) == 2 and all(r["player_0/grad_norm"] > 0 for r in found)
    fails(capsys, train("magrpo", args, "--steps", "1", "--eval_every", "-1", "--output", "two"), "joint_reward")
    shared = ["--steps", "1", "--eval_every", "-1", "--algorithm.joint_reward", "mean", "--output", "three"]
    assert cli.main(train("magrpo", args, *shared)) == 0


def test_a_wrong_number_of_players_shows_before_anything_is_loaded(folder, capsys):
    fails(capsys, train("magrpo", {"game": "GuessTheNumber-v0"}, "--steps", "1"), "num_players=2")

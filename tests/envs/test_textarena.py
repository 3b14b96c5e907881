"""TextArena's games played through our API, and our environments played by TextArena's loop."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modules import importable

from llm_marl_envs import check_env, make
from llm_marl_envs.errors import (
    CloneUnsupportedError,
    ConfigError,
    InvalidActionError,
    MissingDependencyError,
    ResetNeededError,
    UnknownNameError,
)

pytest.importorskip("textarena")

from llm_marl_envs.integrations import textarena as adapter
from llm_marl_envs.integrations.textarena import parallel_env, to_textarena
from llm_marl_envs.integrations.textarena_games import GameError, library
from llm_marl_envs.wrappers import Sequential, SingleAgentView

GAME_ID = "llm_marl_envs.integrations.textarena:textarena/game-v0"
ta = library()

MODULE = '''
import threading
import textarena as ta


class Broken(ta.Env):
    """Fails where it is told to."""

    def __init__(self, where="nowhere", pays=1):
        self.where, self.pays = where, pays
        if where == "copy":
            self.lock = threading.Lock()

    def reset(self, num_players, seed=None):
        if self.where == "reset" and seed == 13:
            raise KeyError("thirteen")
        self.state = ta.TwoPlayerState(num_players=num_players, seed=seed)
        self.state.reset(player_prompt_function=lambda player_id, game_state: f"You are {player_id}.")

    def step(self, action):
        self.state.add_observation(action, ta.ObservationType.PLAYER_ACTION, self.state.current_player_id)
        if self.where == "step" and action == "crash":
            raise IndexError("out of range")
        if action == "end":
            self.state.rewards, self.state.done = {0: self.pays, 1: 0}, True
        return self.state.step()


ta.register("Broken-v0", Broken)
'''


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """The id of a game in a module of its own."""
    with importable(tmp_path_factory.mktemp("games"), "broken_game", MODULE):
        yield "broken_game:Broken-v0"
    ta.envs.registration.ENV_REGISTRY.pop("Broken-v0", None)


def asked(infos):
    """The one agent that is asked."""
    (agent,) = (a for a, info in infos.items() if info["acts"])
    return agent


def play(env, responses, seed=0):
    """Play responses in order, whoever is asked; returns all results, that of reset first."""
    observations, infos = env.reset(seed=seed)
    results = [(observations, infos)]
    for response in responses:
        if not env.agents:
            break
        results.append(env.step({asked(results[-1][-1]): response}))
    return results


# -- playing ----------------------------------------------------------------------------------------------------------

X_WINS = ["[0]", "[3]", "[1]", "[4]", "[2]"]


def test_a_won_game():
    env = make(GAME_ID, game="TicTacToe-v0")
    assert env.metadata["id"] == "textarena/game-v0" and env.metadata["history"] == "none"
    assert env.possible_agents == ["player_0", "player_1"] and env.max_acting == 1
    results = play(env, X_WINS)
    assert [asked(r[-1]) for r in results[:-1]] == ["player_0", "player_1"] * 2 + ["player_0"]
    for number, (_, rewards, terminations, truncations, infos) in enumerate(results[1:], start=1):
        over = number == 5
        assert rewards == ({"player_0": 1.0, "player_1": -1.0} if over else {"player_0": 0.0, "player_1": 0.0})
        assert set(terminations.values()) == {over} and not any(truncations.values())
        assert infos["player_1"]["turn"] == number
        assert infos["player_1"]["terms"] == (rewards if over else {})
        assert infos["player_0"].get("score") == (0.0 if over else None)  # the mean of what both are paid
    last = results[-1][-1]
    assert last["player_0"]["acts"] == last["player_1"]["acts"] == 0
    assert last["player_0"]["details"]["reason"] == "Player 0 has won!"
    assert env.agents == []
    with pytest.raises(ResetNeededError, match="reset"):
        env.step({"player_0": "[5]"})


def test_a_player_sees_when_asked_what_reached_it_since():
    env = parallel_env("TicTacToe-v0")
    results = play(env, X_WINS)
    first, second, third = (r[0] for r in results[:3])
    assert first["player_0"].startswith("[GAME] You are Player 0 in Tic Tac Toe.")
    assert first["player_1"] == "Wait: player_0 moves now." and second["player_0"] == "Wait: player_1 moves now."
    assert second["player_1"].startswith("[GAME] You are Player 1 in Tic Tac Toe.")
    assert "[Player 0] [0]" in second["player_1"]  # the other's response reaches it,
    assert "[Player 1] [3]" in third["player_0"]
    assert "[Player 0] [0]" not in third["player_0"]  # its own it knows
    assert "You are Player 0" not in third["player_0"]
    assert results[-1][0]["player_1"].endswith("\nThe episode is over.")


def test_what_the_others_hand_in_is_ignored():
    plain = play(parallel_env("TicTacToe-v0"), X_WINS)
    env = parallel_env("TicTacToe-v0")
    _, infos = env.reset(seed=0)
    for response, result in zip(X_WINS, plain[1:], strict=True):
        played = env.step({asked(infos): response, **{a: "[8]" for a, i in infos.items() if not i["acts"]}})
        assert played == result
        infos = played[-1]


def test_a_forbidden_move_is_data():
    env = parallel_env("TicTacToe-v0")
    results = play(env, ["[0]", "[0]", "", "ignored"])
    assert len(results) == 4  # one more try, then the game is lost
    assert asked(results[2][-1]) == "player_1"
    assert "invalid move" in results[2][0]["player_1"]
    _, rewards, terminations, _, infos = results[3]
    assert rewards == {"player_0": 1.0, "player_1": -1.0} and all(terminations.values())
    assert infos["player_1"]["details"]["invalid_move"] and not infos["player_0"]["details"]["invalid_move"]


def test_a_turn_limit_truncates_and_pays_nothing():
    env = parallel_env("TicTacToe-v0", num_turns=4)
    assert env.num_turns == 4 and not hasattr(parallel_env("TicTacToe-v0"), "num_turns")
    *_, (observations, rewards, terminations, truncations, infos) = play(env, X_WINS)
    assert env.agents == [] and all(truncations.values()) and not any(terminations.values())
    assert set(rewards.values()) == {0.0} and infos["player_0"]["terms"] == rewards and infos["player_0"]["score"] == 0
    assert observations["player_1"].endswith("The episode is over.")
    *_, (_, rewards, terminations, truncations, _) = play(parallel_env("TicTacToe-v0", num_turns=5), X_WINS)
    assert all(terminations.values()) and not any(truncations.values()) and rewards["player_0"] == 1.0


def test_players_who_are_not_two():
    alone = parallel_env("GuessTheNumber-v0", 1, game_kwargs={"min_number": 3, "max_number": 3})
    (_, rewards, *_) = play(alone, ["[3]"])[-1]
    assert rewards == {"player_0": 1.0}
    three = parallel_env("ThreePlayerIPD-v0", 3, game_kwargs={"num_rounds": 1})
    results = play(
        three,
        ["hello"] * 3 + ["[1 cooperate] [2 cooperate]", "[0 cooperate] [2 cooperate]"] + ["[0 defect] [1 defect]"],
    )
    assert [asked(r[-1]) for r in results[:-1]] == ["player_0", "player_1", "player_2"] * 2
    assert not three.agents and results[-1][1]["player_2"] > results[-1][1]["player_0"]


# -- as TextArena plays it --------------------------------------------------------------------------------------------

PLAYS = {
    "TicTacToe-v0": (2, X_WINS),
    "TicTacToe-v0-train": (2, X_WINS),
    "KuhnPoker-v0": (2, ["check", "[bet]", "[call]", "[check]", "[check]"]),
    "GuessTheNumber-v0": (1, ["[10]", "5", "nonsense", "[20]"]),
    "2048-v0": (1, ["[up]", "[left]", "[down]", "[right]"] * 3),
    "SecretMafia-v0": (6, ["[0]", "[1]", "I am no mafia.", "[2]"] * 5),
}


@pytest.mark.parametrize("game", PLAYS)
def test_the_same_episode_as_in_textarenas_own_loop(game):
    """Seed for seed: the whole text that its agents see, and what they are paid."""
    num_players, responses = PLAYS[game]
    ours = play(parallel_env(game, num_players, history="full"), responses, seed=5)
    outside = random.getstate(), np.random.get_state()
    try:
        theirs = ta.make(game)
        theirs.reset(num_players=num_players, seed=5)
        done = False
        for result, response in zip(ours, responses, strict=False):
            number, shown = theirs.get_observation()
            assert asked(result[-1]) == f"player_{number}"
            assert result[0][f"player_{number}"] == shown
            done, _ = theirs.step(action=response)
            if done:
                break
        paid, told = theirs.close()
    finally:
        random.setstate(outside[0])
        np.random.set_state(outside[1])
    assert done == all(ours[-1][2].values())
    if done:
        assert ours[-1][1] == {f"player_{i}": paid[i] for i in range(num_players)}
        assert ours[-1][-1]["player_0"]["details"] == told[0]


@pytest.mark.parametrize("game", ["TicTacToe-v0", "KuhnPoker-v0", "SecretMafia-v0"])
def test_what_is_new_is_the_end_of_the_whole_log(game):
    num_players, responses = PLAYS[game]
    new = play(parallel_env(game, num_players), responses, seed=5)
    full = play(parallel_env(game, num_players, history="full"), responses, seed=5)
    raw = play(parallel_env(f"{game}-raw", num_players, history="full"), responses, seed=5)
    for small, large in zip(new[:-1], full[:-1], strict=True):
        agent = asked(small[-1])
        assert large[0][agent].endswith(small[0][agent])
        assert [o for a, o in small[0].items() if a != agent] == [o for a, o in large[0].items() if a != agent]
    # Without a wrapper of TextArena the log is ours; raw games want their brackets, so only the start is the same.
    assert raw[0][0]["player_0"] == full[0][0]["player_0"].removeprefix("\n")


def test_the_training_form_of_a_game_shows_less():
    sizes = []
    for game in ("TicTacToe-v0", "TicTacToe-v0-train"):
        env = parallel_env(game, history="full")
        assert env.metadata["history"] == "full"
        sizes.append(len(play(env, X_WINS[:4])[-1][0]["player_0"]))
    assert sizes[1] < sizes[0]


# -- randomness -------------------------------------------------------------------------------------------------------


def test_the_global_generators_are_left_alone_by_import_and_play():
    program = f"""
        import random, numpy as np
        random.seed(3); np.random.seed(4)
        before = random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]
        from llm_marl_envs import make
        env = make({GAME_ID!r}, game="2048-v0", num_players=1)
        env.reset(seed=1)
        env.step({{"player_0": "[up]"}})
        env.clone().step({{"player_0": "[up]"}})
        import pickle, sys
        assert (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]) == before
        sys.stdout.buffer.write(pickle.dumps(env))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    reader = """
        import random, sys, pickle, numpy as np
        before = random.getstate(), np.random.get_state()[1].tolist()
        env = pickle.loads(sys.stdin.buffer.read())
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
        print(env.step({"player_0": "[up]"})[0]["player_0"])
    """
    env = parallel_env("2048-v0", 1)
    here = play(env, ["[up]", "[up]"], seed=1)[-1][0]["player_0"]
    there = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(reader)], input=done.stdout, capture_output=True, check=False
    )
    assert there.returncode == 0, there.stderr.decode()
    assert there.stdout.decode().strip() == here.strip()  # the same episode in another process, gone on with in a third


def test_two_games_in_turn_do_not_disturb_each_other():
    moves = ["[up]", "[left]", "[down]", "[right]"] * 2
    alone = [play(parallel_env("2048-v0", 1), moves, seed=s) for s in (1, 2)]
    envs = [parallel_env("2048-v0", 1) for _ in range(2)]
    mixed = [[env.reset(seed=s)] for env, s in zip(envs, (1, 2), strict=True)]
    for move in moves:
        for env, results in zip(envs, mixed, strict=True):
            results.append(env.step({"player_0": move}))
        random.random()
    assert mixed == alone
    assert alone[0] != alone[1]


def test_a_seed_picks_the_game_and_none_goes_on():
    env = parallel_env("SecretMafia-v0", 6)
    seen = {env.reset(seed=seed)[0]["player_0"] for seed in (1, 2, 3, 1)}
    assert len(seen) > 1
    first = env.reset(seed=1)[0]
    more = [env.reset()[0]["player_0"] for _ in range(6)]
    assert env.reset(seed=1)[0] == first
    assert [env.reset()[0]["player_0"] for _ in range(6)] == more
    assert env.reset(seed=2**40 + 1)[0] == first  # modulo 2**32


class CountingGame(ta.Env):
    """Draws from NumPy's generator, and remembers earlier episodes where it should not."""

    def __init__(self):
        self.played = 0

    def reset(self, num_players, seed=None):
        self.played += 1
        self.state = ta.SinglePlayerState(num_players=num_players, seed=seed)
        self.state.reset()
        self.state.add_observation(f"{self.played} {np.random.randint(10**6)}", ta.ObservationType.PROMPT, to_id=0)

    def step(self, action):
        self.state.add_observation(str(np.random.randint(10**6)), ta.ObservationType.GAME_MESSAGE)
        return self.state.step()


@pytest.fixture(scope="module")
def counting():
    ta.register("Counting-v0", CountingGame)
    yield "Counting-v0"
    ta.envs.registration.ENV_REGISTRY.pop("Counting-v0")


def test_numpy_too_and_every_episode_starts_afresh(counting):
    env = parallel_env(counting, 1, num_turns=3)
    assert (
        play(env, "abc", seed=4)
        == play(env, "abc", seed=4)
        == play(parallel_env(counting, 1, num_turns=3), "abc", seed=4)
    )
    assert play(env, "abc", seed=5) != play(env, "abc", seed=4)
    env.reset(seed=4)
    assert env.clone().step({"player_0": "a"}) == env.clone().step({"player_0": "a"})
    assert env.clone(seed=1).step({"player_0": "a"}) != env.clone(seed=2).step({"player_0": "a"})
    check_env(env)


# -- copies -----------------------------------------------------------------------------------------------------------

DRAWS = {
    "2048-v0": (1, ["[up]", "[left]", "[down]", "[right]", "", "x"]),
    "KuhnPoker-v0": (2, ["[check]", "[bet]", "[call]", "[fold]", "?"]),
    "TicTacToe-v0-train": (2, [f"[{i}]" for i in range(9)]),
    "SecretMafia-v0": (6, ["[0]", "[1]", "[2]", "I am none.", ""]),
}


@pytest.fixture(scope="module")
def drawn():
    return {game: parallel_env(game, n, num_turns=12) for game, (n, _) in DRAWS.items()}


@settings(max_examples=25)
@given(data=st.data(), game=st.sampled_from(sorted(DRAWS)), seed=st.integers(0, 2**33), cut=st.integers(0, 6))
def test_a_copy_goes_on_like_the_original(drawn, data, game, seed, cut):
    env = drawn[game].clone()
    _, infos = env.reset(seed=seed)
    response = st.sampled_from(DRAWS[game][1])
    for _ in range(cut):
        if env.agents:
            *_, infos = env.step({asked(infos): data.draw(response)})
    if not env.agents:
        return
    copies = [env.clone(), pickle.loads(pickle.dumps(env))]
    rest = data.draw(st.lists(response, min_size=1, max_size=6))
    went_on = []
    for player in (*copies, env):  # the original last: what its copies do must not move it
        news, results = infos, []
        for words in rest:
            if player.agents:
                results.append(player.step({asked(news): words}))
                news = results[-1][-1]
        went_on.append((results, player.state()))
    assert went_on[0] == went_on[1] == went_on[2]


def test_a_game_that_cannot_be_copied_is_replayed(broken):
    env = parallel_env(broken, game_kwargs={"where": "copy"})
    assert play(env, ["one", "end"]) == play(env, ["one", "end"])
    env.reset(seed=0)
    with pytest.raises(CloneUnsupportedError, match="Replay"):
        env.clone()


# -- the contract -----------------------------------------------------------------------------------------------------

# Two players, one, three with a talk, six with secret roles, and one that is all chance.
CHECKED = {
    "TicTacToe-v0": {},
    "GuessTheNumber-v0": {"num_players": 1, "history": "full"},
    "ThreePlayerIPD-v0": {"num_players": 3, "game_kwargs": {"num_rounds": 1}},
    "SecretMafia-v0": {"num_players": 6},
    "2048-v0": {"num_players": 1},
    "Secretary-v0": {"num_players": 1},  # it keeps `random.random`, which is bound to the global generator
}


@pytest.mark.parametrize("game", CHECKED)
def test_the_whole_contract(game):
    """Strict: PettingZoo's tests, through its AEC conversion too, and ours."""
    assert check_env(parallel_env(game, **CHECKED[game])) == []


def test_the_aec_form():
    env = adapter.env("TicTacToe-v0")
    env.reset(seed=0)
    shown, moves = [], iter(X_WINS)
    for agent in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        if termination or truncation:
            env.step(None)
            shown.append((agent, reward))
        else:
            env.step(next(moves) if info["acts"] else "")
    assert shown == [("player_0", 1.0), ("player_1", -1.0)]


def test_the_state_is_what_was_seen_and_written():
    env = parallel_env("TicTacToe-v0", render_mode="ansi")
    with pytest.raises(ResetNeededError):
        env.state()
    play(env, X_WINS[:2])
    state = env.state()
    assert "[turn 1, player_0 sees]" in state and "[turn 2, player_1 writes]\n[3]" in state
    assert "You are Player 0" in state and "You are Player 1" in state
    assert env.state_space.contains(state)
    assert "== TicTacToe-v0, move 2 ==" in env.render() and "== TicTacToe-v0, now ==" in env.render()


def test_rendering_for_a_person(capsys):
    play(parallel_env("TicTacToe-v0", render_mode="human"), X_WINS)
    out = capsys.readouterr().out
    assert "You are Player 1 in Tic Tac Toe" in out and "The episode is over." in out


def test_one_model_can_play_all_sides():
    env = SingleAgentView(parallel_env("TicTacToe-v0"), joint_reward="sum")
    env.reset(seed=0)
    result = env.step({"solo": "<player_0>[0]</player_0>"})
    assert "[0]" in result[0]["solo"] and result[-1]["solo"]["missing_sections"] == 0


# -- every game -------------------------------------------------------------------------------------------------------

ALONE = """
    2048 Bandit Blackjack Crosswords FifteenPuzzle FrozenLake GuessTheNumber LightsOut LogicPuzzle Mastermind Minesweeper
    PegJump RushHour Secretary Set Sokoban Sudoku TowerOfHanoi
"""
MORE_THAN_TWO = {
    **{"ThreePlayerTicTacToe": 3, "ThreePlayerGOPS": 3, "ThreePlayerIPD": 3},
    **{"Taboo": 4, "SettlersOfCatan": 4, "SecretMafia": 6},
}
# Why the others cannot be played with TextArena 0.7.4; docs/integrations/textarena.md says the same.
CANNOT = {
    "data of NLTK": "Codenames DontSayIt Hangman LetterAuction SpellingBee WordChains WordLadder WordSearch Wordle",
    "a key": "Debate GuessWho ScenarioPlanning TwentyQuestions",
    "Python 3.12": "Checkers Chess IteratedStagHunt ReverseTicTacToe UltimateTexasHoldem",
    "another file or module": "BabyAiText ScorableGames UsedCarNegotiation",
    "a correction": "CharacterConclave Countdown Cryptarithm Klondike PublicGoodsGame Slitherlink ThreeCardMonte",
}
ALL = sorted(name for name in ta.envs.registration.ENV_REGISTRY if name.endswith("-v0"))
BARRED = {f"{name}-v0" for names in CANNOT.values() for name in names.split()}
PLAYED = [name for name in ALL if name not in BARRED]


def number_of(game):
    name = game.removesuffix("-v0")
    return 1 if name in ALONE.split() else MORE_THAN_TWO.get(name, 2)


def test_the_lists_of_games_are_those_of_textarena_and_of_the_page(root):
    assert set(ALL) >= BARRED | {f"{name}-v0" for name in [*ALONE.split(), *MORE_THAN_TWO]}
    page = (root / "docs/integrations/textarena.md").read_text()
    for game in BARRED:
        assert game.removesuffix("-v0") in page
    assert f"{len(PLAYED)} of its {len(ALL)} games" in page


@pytest.mark.slow
@pytest.mark.parametrize("game", [g for g in PLAYED if g != "RushHour-v0"])  # whose every reset searches for seconds
def test_every_other_game_passes_the_check(game):
    assert check_env(parallel_env(game, number_of(game), num_turns=12), strict=False) == []


@pytest.mark.parametrize(
    "game", ["Wordle-v0", "ScorableGames-v0", pytest.param("TwentyQuestions-v0", marks=pytest.mark.slow)]
)
def test_what_a_game_lacks_is_said(game, monkeypatch):
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    try:
        parallel_env(game, 1)
    except MissingDependencyError as error:
        assert "python -m nltk.downloader words" in str(error) and game == "Wordle-v0"
    except GameError as error:
        assert game in str(error) and ("OPENROUTER_API_KEY" in str(error) or "not found" in str(error))
    else:
        pytest.skip("it is there")


# -- hostile ----------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6))
def test_any_text_is_a_move(drawn, texts):
    env = drawn["TicTacToe-v0-train"].clone()
    for observations, *_ in play(env, texts):
        for agent, observation in observations.items():
            assert env.observation_space(agent).contains(observation)


def test_long_texts_are_clipped_where_they_are_shown_and_refused_over_the_limit():
    env = parallel_env("ThreePlayerIPD-v0", 3, max_text_length=500, history="full")
    results = play(env, ["a" * 500, "b" * 500])
    assert len(results[-1][0]["player_2"]) == 500 and "left out" in results[-1][0]["player_2"]
    assert len(env.state()) <= env.state_space.max_length
    before = env.state()
    with pytest.raises(InvalidActionError, match=r"'player_2'.*501.*500"):
        env.step({"player_2": "c" * 501})
    assert env.state() == before


def test_bad_actions_change_nothing():
    env = parallel_env("TicTacToe-v0")
    with pytest.raises(ResetNeededError, match="reset"):
        env.step({"player_0": "[0]"})
    env.reset(seed=0)
    for actions, said in [
        ({"player_0": "\ud800"}, "lone surrogate"),
        ({"player_0": 4}, "int"),
        ({"player_1": "[0]"}, "'player_0' has no action"),
        ({"player_0": "[0]", "player_9": "[1]"}, "Unknown agent 'player_9'. Did you mean 'player_"),
        (["[0]"], "list"),
    ]:
        with pytest.raises(InvalidActionError, match=said):
            env.step(actions)
    assert play(env, X_WINS) == play(parallel_env("TicTacToe-v0"), X_WINS)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"game": "TicTacTow-v0"}, UnknownNameError, "Did you mean 'TicTacToe-v0'"),
        ({"game": "nowhere_at_all:TicTacToe-v0"}, UnknownNameError, "nowhere_at_all"),
        ({"game": 3}, ConfigError, "id of TextArena"),
        ({"game": "TicTacToe-v0", "num_players": 3}, ConfigError, "num_players=3: .*has to be 2"),
        ({"game": "GuessTheNumber-v0"}, ConfigError, "num_players=2: .*has to be 1"),
        ({"game": "Golf-v0", "num_players": 5}, ConfigError, "num_players=5: .*2-4"),
        ({"game": "TicTacToe-v0", "num_players": 0}, ConfigError, "num_players"),
        ({"game": "TicTacToe-v0", "num_turns": 0}, ConfigError, "num_turns"),
        ({"game": "TicTacToe-v0", "history": "ful"}, ConfigError, "Did you mean 'full'"),
        ({"game": "TicTacToe-v0", "game_kwargs": {"size": 4}}, ConfigError, "game_kwargs=.*size"),
        ({"game": "TicTacToe-v0", "num_player": 2}, ConfigError, "Did you mean 'num_players'"),
    ],
)
def test_bad_arguments(arguments, error, said):
    with pytest.raises(error, match=said):
        make(GAME_ID, **arguments)


def test_a_game_that_fails_is_blamed_and_nothing_is_paid(broken):
    before = random.getstate()
    env = parallel_env(broken, game_kwargs={"where": "reset"})
    env.reset(seed=1)
    env.step({"player_0": "one"})
    with pytest.raises(GameError, match=r"Broken-v0 could not be reset with seed 13: it raised KeyError"):
        env.reset(seed=13)
    assert asked(env.step({"player_1": "two"})[-1]) == "player_0"  # the episode under way goes on
    env = parallel_env(broken, game_kwargs={"where": "step"})
    env.reset(seed=0)
    with pytest.raises(GameError, match=r"player_0's 'crash': it raised IndexError: out of range"):
        env.step({"player_0": "crash"})
    with pytest.raises(ResetNeededError):
        env.step({"player_0": "again"})
    for pays in ("Bad action", None, float("nan")):
        env = parallel_env(broken, game_kwargs={"pays": pays})
        env.reset(seed=0)
        with pytest.raises(GameError, match="paid player 0 .* no finite number"):
            env.step({"player_0": "end"})
    assert random.getstate() == before


def test_without_textarena_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "textarena", None)
    library.cache_clear()
    try:
        with pytest.raises(MissingDependencyError, match=r"pip install 'llm-marl-envs\[textarena\]'"):
            parallel_env("TicTacToe-v0")
    finally:
        library.cache_clear()


def test_the_module_itself_does_not_import_textarena():
    program = "import sys, llm_marl_envs.integrations.textarena as m; assert 'textarena' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


# -- the way back -----------------------------------------------------------------------------------------------------


def textarena_loop(game, agents, seed=0, num_players=2):
    """The loop of TextArena's documentation; returns what each player saw, the rewards and the game's info."""
    game.reset(num_players=num_players, seed=seed)
    done, seen = False, []
    while not done:
        player, observation = game.get_observation()
        seen.append((player, observation))
        done, _ = game.step(action=agents[player](observation))
    return seen, *game.close()


class Says(ta.Agent):
    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, observation):
        assert isinstance(observation, str)
        return self.answers.pop(0)


@pytest.mark.parametrize("answers", [("A", "A"), ("A", "B")])
def test_textarenas_agents_play_a_probe(answers):
    game = ta.wrappers.LLMObservationWrapper(to_textarena(make("probe/same-word-v0")))
    before = random.getstate()
    seen, rewards, told = textarena_loop(game, [Says(answers[0]), Says(answers[1])])
    assert random.getstate() == before
    env = make("probe/same-word-v0")
    first, _ = env.reset(seed=0)
    _, ours, *_, infos = env.step(dict(zip(env.possible_agents, answers, strict=True)))
    assert rewards == {0: ours["agent_1"], 1: ours["agent_2"]} == dict.fromkeys((0, 1), float(answers == ("A", "A")))
    assert seen == [(i, f"\n[GAME] {first[a]}") for i, a in enumerate(env.possible_agents)]
    assert told[1] == {
        "role": "agent_2",
        "invalid_move": False,
        "turn_count": 1,
        "reason": "The episode is over.",
        "terms": infos["agent_2"]["terms"],
    }


TEXTS = ["The committee met and agreed. " * 5, "However, the committee met, for example, and in addition agreed. " * 6]


def test_textarenas_agents_play_two_turns_of_tldr_and_are_paid_as_we_pay():
    def fresh():
        return make("writing/tldr-v0", num_turns=2, turn_reward="sum")

    env = fresh()
    env.reset(seed=3)
    paid = dict.fromkeys(env.possible_agents, 0.0)
    for _ in range(2):
        for agent, reward in env.step(dict(zip(env.possible_agents, TEXTS, strict=True)))[1].items():
            paid[agent] += reward
    game = ta.wrappers.LLMObservationWrapper(to_textarena(fresh()))
    seen, rewards, told = textarena_loop(game, [Says(t, t) for t in TEXTS], seed=3)
    assert list(rewards.values()) == list(paid.values()) and rewards[0] != 0
    assert [player for player, _ in seen] == [0, 1, 0, 1]
    assert TEXTS[0] not in seen[1][1]  # nobody sees what another one writes in the same turn
    assert f"[summarizer] {TEXTS[0]}" in seen[2][1]
    assert told[0]["turn_count"] == 2


def test_protocols_and_single_agents_are_played_too():
    def env():
        return Sequential(make("probe/same-word-v0"), order=["agent_2", "agent_1"])

    seen, rewards, _ = textarena_loop(to_textarena(env()), [lambda _: "C", lambda _: "C"])
    assert [player for player, _ in seen] == [1, 0] and rewards == {0: 1.0, 1: 1.0}
    assert any("C" in words for _, words, _ in seen[1][1])
    view = SingleAgentView(make("probe/same-word-v0"))
    _, rewards, _ = textarena_loop(to_textarena(view), [lambda _: "<agent_1>A</agent_1><agent_2>A</agent_2>"], 0, 1)
    assert rewards == {0: 1.0}


def test_there_and_back(monkeypatch):
    """Ours as TextArena's, played as ours: the turns become moves, and the rewards stay."""
    monkeypatch.setitem(ta.envs.registration.ENV_REGISTRY, "Probe-v0", None)
    monkeypatch.delitem(ta.envs.registration.ENV_REGISTRY, "Probe-v0")
    ta.register("Probe-v0", lambda: to_textarena(make("probe/two-turn-v0")))
    env = parallel_env("Probe-v0")
    *_, last = play(env, ["B", "D", "C", "A"])
    assert last[1] == {"player_0": 1.0, "player_1": 1.0}
    twin = env.clone()
    assert twin.reset(seed=1) == env.reset(seed=1)


def test_what_textarena_may_hand_in():
    env = make("writing/tldr-v0", max_text_length=256)
    game = to_textarena(env)
    with pytest.raises(ResetNeededError):
        game.step("before the reset")
    with pytest.raises(ConfigError, match="num_players must be 2, not 3"):
        game.reset(num_players=3)
    _, rewards, _ = textarena_loop(game, [lambda _: "x" * 100_000, lambda _: "\ud800 and more"])
    assert rewards == {0: 0.0, 1: 0.0}
    with pytest.raises(ResetNeededError):
        game.step("after the end")
    game.reset(num_players=2, seed=1)
    with pytest.raises(InvalidActionError, match="'summarizer'"):
        game.step(None)
    with pytest.raises(ConfigError, match="ParallelEnv"):
        to_textarena(object())

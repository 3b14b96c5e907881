"""``TokenView``: text in whole numbers and back, in PettingZoo, SuperSuit and TorchRL, and that classic code learns."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from coding_rows import HUMANEVAL_ROWS
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test, parallel_seed_test
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec
from teams import Outside, team
from toys import toy

from llm_marl_envs import UnicodeText, check_env, make
from llm_marl_envs.errors import (
    CloneUnsupportedError,
    ConfigError,
    InvalidActionError,
    ResetNeededError,
    UnknownNameError,
)
from llm_marl_envs.wrappers import Sequential, SingleAgentView, TokenView

MENU = ["A", "B", "C", "D"]
LETTERS = ["a", "b", "c"]  # in the action space of Outside
VIEWS = {
    "box": lambda env: TokenView(env),
    "whole numbers": lambda env: TokenView(env, length=24, dtype="int32", keep="start"),
    "multidiscrete": lambda env: TokenView(env, "bytes", {"observation": 40, "action": 5}, "multidiscrete"),
    "menu": lambda env: TokenView(env, actions="menu", menu=LETTERS),
    "menu, infos": lambda env: TokenView(
        env, length=8, observations="multidiscrete", actions="menu", menu=LETTERS, infos=["score", "terms.right"]
    ),
}
ENVIRONMENTS = {
    "own-word": lambda: make("probe/own-word-v0", num_agents=3),
    "same-word": lambda: make("probe/same-word-v0"),
    "two-turn": lambda: make("probe/two-turn-v0"),
    "tldr": lambda: make("writing/tldr-v0", num_turns=2),
    "letters": lambda: toy(num_turns=3),
    "sequential": lambda: Sequential(team(num_turns=2)),
    "single": lambda: SingleAgentView(toy(num_turns=2)),
}
every_view = pytest.mark.parametrize("build", VIEWS.values(), ids=VIEWS.keys())
every_environment = pytest.mark.parametrize("make_env", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())


def tokens(content: str) -> list[int]:
    """The symbols of a text in bytes, by hand."""
    return [byte + 1 for byte in content.encode("utf-8")]


def padded(content: str, length: int) -> list[int]:
    return tokens(content) + [0] * (length - len(tokens(content)))


def array_equal(one, two) -> bool:
    """Nested dicts and tuples of arrays and numbers are equal."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(array_equal(one[k], two[k]) for k in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(map(array_equal, one, two))
    return bool(np.array_equal(one, two)) and type(one) is type(two)


def random_episode(env, seed: int):
    """What reset returned and each step of an episode of sampled actions."""
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + number)
    seen = [env.reset(seed=seed)]
    while env.agents:
        seen.append(env.step({a: env.action_space(a).sample() for a in env.agents}))
    return seen


# -- the contract -------------------------------------------------------------------------------------------------


@every_view
@every_environment
def test_the_contract_but_for_what_is_text(build, make_env):
    notes = check_env(build(make_env()), strict=False)
    assert len(notes) == 2 and "language model" in notes[0] and "['terms'] is None" in notes[1]


@every_view
def test_pettingzoos_own_tests(build):
    parallel_api_test(build(toy(num_turns=3)), num_cycles=20)
    parallel_seed_test(lambda: build(make("writing/tldr-v0")))


@every_view
def test_a_third_partys_environment(build):
    env = build(Outside(asks=[("x", "y"), ("y",), ("x",)], leaver=None))
    notes = check_env(env, strict=False)
    assert len(notes) == 5 and "language model" in notes[0] and "['terms']" in notes[1] and "np_random" in notes[2]
    assert "state_space" in notes[3] and "clone()" in notes[4]
    episode = random_episode(env, seed=3)
    assert [[i["acts"] for i in result[-1].values()] for result in episode] == [[1, 1], [0, 1], [1, 0], [1, 1]]
    assert [list(asked) for asked in env.unwrapped.log] == [["x", "y"], ["y"], ["x"]]
    with pytest.raises(CloneUnsupportedError, match="its class Outside defines no clone"):
        env.clone()


@pytest.mark.parametrize("build", [VIEWS["box"], VIEWS["menu, infos"]], ids=["box", "menu"])
def test_a_coding_task(build):
    env = build(make("coding/humaneval-v0", data=HUMANEVAL_ROWS, num_turns=2))
    episode = random_episode(env, seed=0)
    assert len(episode) == 3 and all(type(r) is float for r in episode[1][1].values())
    for observations, *_, infos in episode:
        assert all(env.observation_space(a).contains(seen) for a, seen in observations.items())
        assert all(isinstance(v, (int, float)) for info in infos.values() for v in info.values())


@every_view
@every_environment
def test_same_seed_same_episode(build, make_env):
    one, two = build(make_env()), build(make_env())
    two.reset()
    for seed in range(3):
        assert array_equal(random_episode(one, seed), random_episode(two, seed))


@every_view
@every_environment
def test_clones_and_copies_go_their_own_ways(build, make_env):
    env = build(make_env())
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(number)
    env.reset(seed=1)
    while env.agents:
        actions = {a: env.action_space(a).sample() for a in env.agents}
        copies = [env.clone(), env.clone(seed=5), pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
        assert all(type(twin) is TokenView and twin.unwrapped is not env.unwrapped for twin in copies)
        agent = env.agents[0]
        assert all(twin.action_space(agent) is not env.action_space(agent) for twin in copies)
        before = env.state()
        results = [twin.step(actions) for twin in copies]
        assert np.array_equal(env.state(), before)
        mine = env.step(actions)
        assert all(array_equal(mine, result) for result in results)
        assert all(np.array_equal(twin.state(), env.state()) for twin in copies)
    assert env.clone().vocabulary.tokenizer is env.vocabulary.tokenizer


def test_what_is_forwarded():
    inside = make("writing/tldr-v0", num_turns=2, render_mode="ansi")
    env = TokenView(Sequential(inside))
    env.reset(seed=0)
    assert env.num_turns == 4 and env.max_acting == 1 and env.max_score == inside.max_score
    assert env.metadata == env.env.metadata and env.metadata["protocol"] == "sequential"
    assert env.np_random is inside.np_random and env.unwrapped is inside
    assert env.render() == env.env.render() and "summarizer sees" in env.render()
    assert TokenView(inside).metadata == inside.metadata and TokenView(inside).max_acting == 2
    assert TokenView(Outside()).max_acting == 2
    one = env.reset(options={"index": 1})[0]["summarizer"]
    assert env.decode_observation("summarizer", one) in inside.observations["summarizer"]


def test_as_aec_and_back():
    env = aec_to_parallel(parallel_to_aec(TokenView(make("probe/two-turn-v0"))))
    plain = TokenView(make("probe/two-turn-v0"))
    assert array_equal(env.reset(seed=1)[0], plain.reset(seed=1)[0])
    actions = {a: plain.encode_action(a, "B") for a in plain.agents}
    assert array_equal(env.step(actions)[0], plain.step(actions)[0])


# -- spaces -------------------------------------------------------------------------------------------------------


def test_spaces():
    env = TokenView(make("probe/own-word-v0"), length={"observation": 7, "action": 3, "state": 9})
    assert env.observation_space("agent_1") == Box(0, 256, (7,), np.float32)
    assert env.action_space("agent_1") == MultiDiscrete([257] * 3)
    assert env.state_space == Box(0, 256, (9,), np.float32)
    assert env.observation_space("agent_1") is env.observation_space("agent_1")
    assert env.observation_space("agent_1") is not env.observation_space("agent_2")
    env = TokenView(make("probe/own-word-v0", num_agents=3), length=4, observations="multidiscrete", dtype=np.uint16)
    assert env.observation_space("agent_1") == MultiDiscrete([257] * 4, dtype=np.uint16)
    assert env.state_space.shape == (12,) and env.state_space.dtype == np.uint16
    env = TokenView(make("probe/own-word-v0"), actions="menu", menu={"agent_1": MENU, "agent_2": ("", "x")})
    assert env.action_space("agent_1") == Discrete(4) and env.action_space("agent_2") == Discrete(2)
    assert env.observation_space("agent_1").shape == (256,) and env.state_space.shape == (512,)
    assert TokenView(make("probe/own-word-v0"), length={"action": 2}).observation_space("agent_1").shape == (256,)


# -- text and arrays ----------------------------------------------------------------------------------------------

any_text = st.text(max_size=60)
FREE = {
    "box": TokenView(toy(), length=240),
    "whole numbers": TokenView(toy(), length=240, dtype="int16"),
    "multidiscrete": TokenView(toy(), length=240, observations="multidiscrete"),
}


@pytest.mark.parametrize("view", FREE.values(), ids=FREE.keys())
@given(content=any_text)
@example(content="\0")
@example(content="\0\0a\0")
@example(content="\ufeff\r\n \ufffd\u2028")
@example(content="\U0010ffff" * 60)  # 240 bytes
def test_the_round_trip_is_exact(view, content):
    array = view.encode_observation("left", content)
    assert view.observation_space("left").contains(array)
    assert array.tolist() == padded(content, 240)
    assert view.decode_observation("left", array) == content
    action = view.encode_action("right", content)
    assert view.action_space("right").contains(action) and action.tolist() == padded(content, 240)
    assert view.decode_action("right", action) == content


def test_a_row_of_zeros_is_the_empty_text():
    env = TokenView(toy(), length=4)
    assert env.decode_observation("left", np.zeros(4)) == "" == env.decode_action("left", np.zeros(4, np.int64))
    assert env.decode_action("left", [66, 0, 67, 68]) == "A"  # what follows the end is not read


@given(content=any_text.filter(bool), length=st.integers(1, 30), keep=st.sampled_from(["end", "start"]))
def test_what_is_too_long_is_cut_and_counted(content, length, keep):
    class Shows(Outside):
        def observation_space(self, agent):
            return UnicodeText(60)

        def reset(self, seed=None, options=None):
            return {a: content for a in self.possible_agents}, super().reset(seed)[1]

    whole = tokens(content)
    env = TokenView(Shows(), length=length, keep=keep)
    observations, infos = env.reset(seed=0)
    kept = whole[-length:] if keep == "end" else whole[:length]
    assert observations["x"].tolist() == kept + [0] * (length - len(kept))
    assert infos["x"] == {"acts": 1, "cut_tokens": len(whole) - len(kept)}
    if len(whole) > length:
        with pytest.raises(ConfigError, match=f"has {len(whole)} tokens, and an action of 'x' holds {length}"):
            env.encode_action("x", content)


def test_the_end_is_kept_unless_told():
    row = {"id": "r", "text": "first and last"}
    shown = "left: first and last"
    for keep, expected in ((None, "and last"), ("end", "and last"), ("start", "left: fi")):
        env = TokenView(toy(rows=[row]), length=8, **({"keep": keep} if keep else {}))
        observations, infos = env.reset(seed=0)
        assert env.decode_observation("left", observations["left"]) == expected
        assert infos["left"]["cut_tokens"] == len(shown) - 8
    env = TokenView(toy(rows=[{"id": "r", "text": "\N{SNOWMAN}"}]), length=2)  # a third of it is cut
    assert env.decode_observation("left", env.reset(seed=0)[0]["left"]) == "\ufffd\ufffd"


def test_lone_surrogates_of_a_third_party():
    class Broken(Outside):
        def reset(self, seed=None, options=None):
            return {a: "a\ud800" for a in self.possible_agents}, super().reset(seed)[1]

    env = TokenView(Broken())
    assert env.decode_observation("x", env.reset(seed=0)[0]["x"]) == "a\ufffd"


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(4, 257), np.full(4, -1), np.zeros((4, 1)), 0])
def test_what_is_no_observation(bad):
    env = TokenView(toy(), length=4)
    with pytest.raises(
        ConfigError, match=r"no observation of 'left', an array of shape \(4,\) of symbols from 0 to 256"
    ):
        env.decode_observation("left", bad)


# -- actions ------------------------------------------------------------------------------------------------------

ACTING = {
    "probe": make("probe/two-turn-v0"),
    "tldr": make("writing/tldr-v0"),
    "short": toy(max_text_length=256),
    "narrow": Outside(),
    "sequential": Sequential(team()),
    "coding": make("coding/humaneval-v0", data=HUMANEVAL_ROWS),
}


@pytest.mark.parametrize("env", ACTING.values(), ids=ACTING.keys())
@given(
    written=st.binary(max_size=300) | st.text(max_size=75).map(str.encode) | st.text("abc", max_size=9).map(str.encode),
    end=st.integers(0, 300),
    rest=st.integers(0, 256),
)
@settings(max_examples=40)
def test_every_array_is_an_action(env, written, end, rest):
    view = TokenView(env, length=300)
    array = np.full(300, rest)
    array[: len(written)] = np.frombuffer(written, np.uint8) + np.int64(1)
    array[end:][:1] = 0
    before_end = array.tolist()[: array.tolist().index(0)] if 0 in array else array.tolist()
    expected = bytes(symbol - 1 for symbol in before_end).decode("utf-8", errors="replace")
    for agent in env.possible_agents:
        space = env.action_space(agent)
        content = view.decode_action(agent, array)
        assert view.action_space(agent).contains(array) and space.contains(content)
        assert content == view.decode_action(agent, array.tolist())
        if isinstance(space, UnicodeText):
            assert content == expected[: space.max_length]
        else:  # one to five of a, b and c
            assert content == ("".join(c for c in expected if c in "abc")[:5] or "a")


def test_what_is_no_utf8_is_data():
    env = TokenView(toy(), length=3)
    assert env.decode_action("left", [0xFF + 1, ord("L") + 1, 0xC3 + 1]) == "\ufffdL\ufffd"
    env.reset(seed=0)
    assert env.step({"left": np.array([256, 77, 196]), "right": [0, 0, 0]})[1] == {"left": 1.0, "right": 1.0}


@every_environment
@pytest.mark.parametrize("build", [VIEWS["whole numbers"], VIEWS["menu"]], ids=["bytes", "menu"])
def test_numbers_earn_what_their_texts_earn(build, make_env):
    env, plain = build(make_env()), make_env()
    observations, infos = env.reset(seed=4)
    shown, told = plain.reset(seed=4)
    texts = iter(["a", "b", "c"] * 10)
    while env.agents:
        length = env.lengths["observation"]
        for agent, content in shown.items():
            whole = tokens(content)
            kept = whole[:length] if env.keep == "start" else whole[-length:]
            assert observations[agent].tolist() == kept + [0] * (length - len(kept))
            assert infos[agent]["cut_tokens"] == max(len(whole) - length, 0)
            assert infos[agent]["acts"] == told[agent].get("acts", 1)
        written = {a: next(texts) for a in env.agents}
        observations, *mine, infos = env.step({a: env.encode_action(a, t) for a, t in written.items()})
        shown, *its, told = plain.step(written)
        assert mine == its
    assert not plain.agents


@pytest.mark.parametrize("view", [VIEWS["box"], VIEWS["menu"]], ids=["bytes", "menu"])
@pytest.mark.parametrize("make_env", [team, Outside], ids=["ours", "a third party's"])
def test_a_bad_step_names_what_is_wrong_and_changes_nothing(view, make_env):
    env = view(make_env())
    with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
        env.step({})
    env.reset(seed=0)
    agent = env.possible_agents[0]
    good = {a: env.encode_action(a, "a") for a in env.agents}
    n, shape = (3, r"\(\)") if env.menu else (257, r"\(256,\)")
    zeros = np.zeros_like(good[agent])
    named = f"agent '{agent}' is not in its space: "
    for bad, words in [
        (None, "takes a dict agent -> action, not NoneType"),
        ([1, 2], "takes a dict agent -> action, not list"),
        ({**good, "nobody": 0}, "Unknown agent 'nobody'"),
        ({a: t for a, t in good.items() if a != agent}, f"Agent '{agent}' has no action"),
        ({**good, agent: "a"}, named + "it is str of .*must be whole numbers"),
        ({**good, agent: None}, named + "it is NoneType of object, and must be whole numbers"),
        ({**good, agent: zeros + 0.5}, named + "it is .* of float64, and must be whole numbers"),
        ({**good, agent: zeros == 0}, named + "it is .* of bool"),
        ({**good, agent: zeros - 1}, named + f"it holds -1, and the limit is 0 to {n - 1}"),
        ({**good, agent: zeros + n}, named + f"it holds {n}, and the limit is 0 to {n - 1}"),
        ({**good, agent: [0, 0]}, named + rf"its shape is \(2,\), and must be {shape}"),
        ({**good, agent: [[0], [0, 0]]}, named + "it is no array but list of lists of different lengths"),
    ]:
        with pytest.raises(InvalidActionError, match=words):
            env.step(bad)
    again = view(make_env())
    again.reset(seed=0)
    assert array_equal(env.step(good), again.step(good))


@pytest.mark.parametrize("kind", [int, np.int32, np.int64, np.array, lambda x: np.array(x, np.uint8)])
def test_whole_numbers_of_any_type_are_actions(kind):
    env = TokenView(make("probe/own-word-v0"), actions="menu", menu=MENU)
    env.reset(seed=0)
    assert env.step({"agent_1": kind(1), "agent_2": kind(3)})[1] == {"agent_1": 1.0, "agent_2": 1.0}


def test_what_the_others_hand_in_is_ignored():
    env, plain = TokenView(Sequential(team())), Sequential(team())
    _, infos = env.reset(seed=0)
    plain.reset(seed=0)
    for agent in ("ann", "ben", "cat"):
        assert [a for a in env.agents if infos[a]["acts"]] == [agent]
        given = {a: env.encode_action(a, agent) if a == agent else "nonsense" for a in env.agents}
        _, rewards, _, _, infos = env.step(given if agent == "ben" else {agent: given[agent]})
        assert rewards == plain.step({agent: agent})[1]
    assert rewards["cat"] == 3.0


# -- the menu -----------------------------------------------------------------------------------------------------


def test_a_menu():
    menu = {"left": ["nothing", "L"], "right": ["R" * 4, "\n", ""]}
    env = TokenView(toy(num_turns=2), actions="menu", menu=menu)
    env.reset(seed=0)
    assert [env.decode_action("right", i) for i in range(3)] == menu["right"]
    assert [env.encode_action("left", t) for t in menu["left"]] == [0, 1]
    assert env.step({"left": 0, "right": 1})[1] == {"left": -3.0, "right": -3.0}
    assert env.unwrapped.turns[0].actions == {"left": "nothing", "right": "\n"}
    assert env.step({"left": 1, "right": 0})[2] == {"left": True, "right": True}
    with pytest.raises(ConfigError, match="menu of 'left' has no 'R'. It has: .'nothing', 'L'"):
        env.encode_action("left", "R")
    menu["left"].clear()  # the environment keeps its own
    assert env.decode_action("left", 1) == "L"


@pytest.mark.parametrize(
    "menu, words",
    [
        (None, "needs menu=: a list of responses"),
        ([], "menu of 'x' must be a list of at least one response"),
        ("abc", "menu of 'x' must be a list of at least one response, not 'abc'"),
        (7, "menu of 'x' must be a list"),
        ({"x": ["a"]}, "menu has no responses for 'y'"),
        ({"x": ["a"], "y": ["b"], "z": ["c"]}, "unknown agent 'z'"),
        ({"x": ["a"], "y": []}, "menu of 'y' must be a list of at least one"),
        ({"x": ["a"], "y": "b"}, "menu of 'y' must be a list"),
        (["a", "d"], "Entry 1 of the menu of 'x' is not in its action space .*some that .* does not allow"),
        ({"x": ["a"], "y": ["abcabc"]}, "Entry 0 of the menu of 'y' .*it has 6 characters, the limit is 5"),
        ({"x": ["a", "b", 3], "y": ["a"]}, "Entry 2 of the menu of 'x' .*of type int, and must be a str"),
        (["a", ""], "Entry 1 of the menu of 'x'"),
    ],
)
def test_bad_menus(menu, words):
    with pytest.raises(ConfigError, match=words):
        TokenView(Outside(), actions="menu", menu=menu)


# -- infos and state ----------------------------------------------------------------------------------------------


def test_infos_hold_numbers_under_the_same_names():
    names = ["score", "terms.ell", "details.length", "solved", "nothing", "terms.nothing", "score.inner"]
    env = TokenView(toy(num_turns=2), infos=names)
    _, infos = env.reset(seed=0)
    assert list(infos["left"]) == list(infos["right"]) == ["acts", "cut_tokens", *names]
    assert infos["left"]["acts"] == 1 and infos["left"]["cut_tokens"] == 0
    assert all(infos["left"][name] == 0.0 for name in names)
    *_, infos = env.step({a: env.encode_action(a, "L") for a in env.agents})
    values = dict(infos["right"])
    assert list(values) == ["acts", "cut_tokens", *names] and all(type(values[name]) is float for name in names)
    assert [values[name] for name in names[:4]] == [1.0, 1.0, 1.0, 0.0]
    assert all(values[name] == 0.0 for name in names[4:])
    env = TokenView(toy(), infos=["terms"])
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="infos: 'terms' is dict, and must be a number"):
        env.step({a: env.encode_action(a, "") for a in env.agents})


def test_state():
    env = TokenView(toy(num_turns=2), length={"state": 2_000})
    with pytest.raises(ResetNeededError):
        env.state()
    env.reset(seed=0)
    assert env.state_space.contains(env.state())
    assert env.state().tolist() == padded(env.env.state(), 2_000) and env.cut_state_tokens == 0
    env.step({a: env.encode_action(a, "some words") for a in env.agents})
    assert env.state().tolist() == padded(env.env.state(), 2_000) and "some words" in env.env.state()
    short = TokenView(toy(), length=4)
    short.reset(seed=0)
    assert short.state().tolist() == tokens(short.env.state())[-8:]
    assert short.cut_state_tokens == len(tokens(short.env.state())) - 8 > 0
    assert not hasattr(TokenView(Outside()), "state_space")


def test_a_state_without_a_space_and_one_of_arrays():
    class Says(Outside):
        def state(self):
            return "abc"

    class Arrays(Outside):
        state_space = Box(0, 1, (3,))

        def state(self):
            return np.zeros(3, np.float32)

    assert TokenView(Says(), length=2).state().tolist() == padded("abc", 4)
    assert TokenView(Arrays()).state().tolist() == [0, 0, 0] and TokenView(Arrays()).state_space == Box(0, 1, (3,))


# -- tokenizers ---------------------------------------------------------------------------------------------------


class Words:
    """A tokenizer as somebody might write one: 0 is any other word."""

    KNOWN = ("?", "first", "and", "last", "left:", "right:", "L")

    def __init__(self, shift=0, kind=list):
        self.shift, self.kind = shift, kind

    def encode(self, text):
        words = text.split()
        return self.kind(self.KNOWN.index(w) + self.shift if w in self.KNOWN else 0 for w in words)

    def decode(self, ids):
        return " ".join(self.KNOWN[i] for i in ids)


class Sized(Words):
    vocab_size = len(Words.KNOWN)


def test_any_tokenizer():
    for tokenizer, size in ((Words(), 7), (Sized(), None), (Sized, None)):
        env = TokenView(toy(rows=[{"id": "r", "text": "first word and last"}]), tokenizer, 5, vocabulary_size=size)
        assert env.action_space("left") == MultiDiscrete([8] * 5)
        observations, infos = env.reset(seed=0)
        assert observations["left"].tolist() == [5, 2, 1, 3, 4] and infos["left"]["cut_tokens"] == 0
        assert env.decode_observation("left", observations["left"]) == "left: first ? and last"
        assert env.decode_action("left", [7, 1, 7, 0, 7]) == "L ? L"


def test_a_tokenizer_of_another_module():
    env = TokenView(toy(), "llm_marl_envs.wrappers.tokenizers:ByteTokenizer", 2)
    assert env.encode_action("left", "L").tolist() == [77, 0]


def test_ids_of_other_kinds():
    for kind in (tuple, lambda ids: np.array(list(ids), np.uint8), list):
        assert TokenView(toy(), Sized(kind=kind), 3).encode_observation("left", "L and").tolist() == [7, 3, 0]
        assert TokenView(toy(), Sized(kind=kind), 3).encode_observation("left", "").tolist() == [0, 0, 0]


class Unsized:
    encode = Words.encode
    decode = Words.decode


class NoText(Sized):
    def decode(self, ids):
        return list(ids)


@pytest.mark.parametrize(
    "tokenizer, size, words",
    [
        (None, None, r"tokenizer=None has no encode\(\). Pass 'bytes', or an object"),
        (["a"], None, r"has no encode\(\)"),
        (Words(), None, r"Nothing says how many tokens .* no len\(\), vocab_size or n_vocab. Pass vocabulary_size="),
        (Words(), 0, "vocabulary_size of .* says 0"),
        (Words(), True, "vocabulary_size of .* says True"),
        (Words(), 2.5, "vocabulary_size of .* says 2.5"),
        (Words(), 8, "cannot decode 7, the last of 8 ids"),
        ("bytes", 300, "cannot decode 299, the last of 300 ids"),
        (NoText(), None, r"decode\(\) of .* returned list; it must return str"),
    ],
)
def test_bad_tokenizers(tokenizer, size, words):
    with pytest.raises(ConfigError, match=words):
        TokenView(toy(), tokenizer, vocabulary_size=size)


@pytest.mark.parametrize(
    "tokenizer, size, words",
    [
        (Sized(shift=1), None, "gave the id 7, and its ids lie in 0 to 6. Pass vocabulary_size="),
        (Sized(shift=-9), None, "gave the id -3, and its ids lie in 0 to 6"),
        (Words(), 3, "gave the id 6, and its ids lie in 0 to 2"),
        (Sized(kind=lambda ids: [list(ids)]), None, "returned list; it must return a list of whole numbers"),
        (Sized(kind=lambda ids: [str(i) for i in ids]), None, "must return a list of whole numbers"),
        (Sized(kind=lambda ids: object()), None, "returned object; it must return a list of whole numbers"),
    ],
)
def test_ids_that_fall_outside(tokenizer, size, words):
    env = TokenView(toy(), tokenizer, vocabulary_size=size)
    with pytest.raises(ConfigError, match=words):
        env.encode_observation("left", "L")


def test_an_unknown_name_of_a_tokenizer():
    with pytest.raises(UnknownNameError, match="Unknown tokenizer 'byte'. Did you mean 'bytes'"):
        TokenView(toy(), "byte")


@pytest.fixture(scope="module")
def byte_pairs():
    """A tokenizer of transformers that begins every text with a special token, unless told not to."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["You are agent 1 of 2. Answer with one of: A B C D.", "Text text text ."], trainer)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", clean_up_tokenization_spaces=True
    )
    tokenizer.add_tokens(["<more>"])
    return tokenizer


@settings(max_examples=40)
@given(content=any_text)
@example(content="<s> You , are <more> .")
def test_a_tokenizer_of_transformers(byte_pairs, content):
    env = TokenView(toy(), byte_pairs, length=300)
    assert env.vocabulary.size == len(byte_pairs) > byte_pairs.vocab_size
    array = env.encode_observation("left", content)
    assert env.decode_observation("left", array) == content
    ids = byte_pairs.encode(content, add_special_tokens=False)
    assert array.tolist() == [i + 1 for i in ids] + [0] * (300 - len(ids))


def test_a_tokenizer_of_transformers_plays(byte_pairs):
    env = TokenView(make("probe/two-turn-v0"), byte_pairs, 8, "multidiscrete")
    assert env.action_space("agent_1") == MultiDiscrete([len(byte_pairs) + 1] * 8)
    assert len(check_env(env, strict=False)) == 2
    env.reset(seed=0)
    env.step({a: env.encode_action(a, t) for a, t in (("agent_1", "B"), ("agent_2", "D"))})
    assert env.step({"agent_1": env.encode_action("agent_1", "C"), "agent_2": env.encode_action("agent_2", "A")})[
        1
    ] == {
        "agent_1": 1.0,
        "agent_2": 1.0,
    }


# -- other arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"observations": "text"}, "observations must be 'box' or 'multidiscrete', not 'text'"),
        ({"actions": "discrete"}, "actions must be 'multidiscrete' or 'menu', not 'discrete'"),
        ({"keep": "both"}, "keep must be 'end' or 'start', not 'both'"),
        ({"length": 0}, r"length \(observation\) must be a whole number of at least 1, not 0"),
        ({"length": True}, "must be a whole number of at least 1, not True"),
        ({"length": 2.0}, "must be a whole number of at least 1, not 2.0"),
        ({"length": {"action": -1}}, r"length \(action\) must be"),
        ({"length": {"actions": 3}}, "length has no 'actions'. Did you mean 'action'"),
        ({"menu": ["a"]}, "menu has responses, and actions='multidiscrete' has no use for them"),
        ({"dtype": "float16"}, "dtype with observations='box' must be one of float32, float64, int64"),
        ({"dtype": "nonsense"}, "must be one of float32.*, not 'nonsense'"),
        ({"dtype": bool}, "must be one of float32"),
        ({"observations": "multidiscrete", "dtype": np.float32}, "must be one of int64, int32, int16, uint16"),
        ({"dtype": "int16", "tokenizer": Words(), "vocabulary_size": 7, "infos": "score"}, "infos must be a list"),
        ({"infos": None}, "infos must be a list of names"),
        ({"infos": ["score", 3]}, "infos must be a list of names"),
        ({"infos": ["acts"]}, "infos names .'acts'., which are always there"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ConfigError, match=words):
        TokenView(toy(), **arguments)


class Many:
    """As many tokens as wanted."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def encode(self, text):
        return [self.vocab_size - 1]

    def decode(self, ids):
        return "x" * len(ids)


@pytest.mark.parametrize("dtype, most", [("int16", 2**15 - 2), ("uint16", 2**16 - 2), ("float32", 2**24 - 1)])
@pytest.mark.parametrize("observations", ["box", "multidiscrete"])
def test_the_type_must_hold_every_symbol(dtype, most, observations):
    if (observations, dtype) == ("multidiscrete", "float32"):
        return
    env = TokenView(toy(), Many(most), 2, observations, dtype=dtype)
    array = env.encode_observation("left", "")
    assert int(array[0]) == most and env.observation_space("left").contains(array)
    with pytest.raises(ConfigError, match=f"dtype={dtype} holds whole numbers up to .* there are .* symbols"):
        TokenView(toy(), Many(most + 1), 2, observations, dtype=dtype)


def test_environments_that_are_not_text():
    with pytest.raises(ConfigError, match="TokenView wraps text environments; observation_space"):
        TokenView(TokenView(toy()))


# -- other libraries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_cpus", [0, 1])
@pytest.mark.parametrize("build", [VIEWS["whole numbers"], VIEWS["multidiscrete"], VIEWS["menu"]])
def test_supersuit_vectorises(build, num_cpus):
    supersuit = pytest.importorskip("supersuit")
    agents, copies = ["left", "right"], 3
    vector = supersuit.concat_vec_envs_v1(
        supersuit.pettingzoo_env_to_vec_env_v1(build(toy(num_turns=2))), copies, num_cpus=num_cpus
    )
    plain = [build(toy(num_turns=2)) for _ in range(copies)]
    observations, infos = vector.reset(seed=3)
    expected = [env.reset(seed=3 + i) for i, env in enumerate(plain)]
    assert array_equal(list(observations), [seen[a] for seen, _ in expected for a in agents])
    assert infos == [told[a] for _, told in expected for a in agents]
    space = plain[0].action_space("left")
    space.seed(0)
    for step in range(5):  # over the end of two episodes
        actions = [[space.sample() for _ in agents] for _ in plain]
        observations, rewards, terminations, truncations, _ = vector.step(np.array(actions).reshape(6, *space.shape))
        results = [env.step(dict(zip(agents, a, strict=True))) for env, a in zip(plain, actions, strict=True)]
        assert rewards.tolist() == [r[1][a] for r in results for a in agents]
        assert terminations.tolist() == [r[2][a] for r in results for a in agents] == [step % 2 == 1] * 6
        assert not truncations.any()
        shown = [r[0] if env.agents else env.reset()[0] for env, r in zip(plain, results, strict=True)]
        assert array_equal(list(observations), [seen[a] for seen in shown for a in agents])
    vector.close()


def test_supersuit_scales_to_one():
    supersuit = pytest.importorskip("supersuit")
    env = TokenView(toy(), length=30)
    scaled = supersuit.normalize_obs_v0(TokenView(toy(), length=30))
    seen = scaled.reset(seed=0)[0]["left"]
    assert np.allclose(seen, env.reset(seed=0)[0]["left"] / 256) and 0 < seen.max() <= 1


def test_supersuit_pads_menus_of_different_lengths():
    supersuit = pytest.importorskip("supersuit")
    menu = {"agent_1": ["A", "B"], "agent_2": ["A", "B", "D"]}
    env = supersuit.pad_action_space_v0(TokenView(make("probe/own-word-v0"), actions="menu", menu=menu))
    vector = supersuit.concat_vec_envs_v1(supersuit.pettingzoo_env_to_vec_env_v1(env), 2)
    vector.reset(seed=0)
    assert vector.action_space == Discrete(3)
    assert vector.step(np.array([1, 2, 1, 0]))[1].tolist() == [1.0, 1.0, 0.5, 0.5]


@pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested")
@pytest.mark.parametrize("name", ["box", "whole numbers", "multidiscrete", "menu, infos"])
@pytest.mark.parametrize("make_env", [ENVIRONMENTS["two-turn"], ENVIRONMENTS["tldr"], ENVIRONMENTS["sequential"]])
def test_torchrl_rolls_out(name, make_env):
    pytest.importorskip("torchrl")
    import torch
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper
    from torchrl.envs.utils import check_env_specs

    env, plain = PettingZooWrapper(VIEWS[name](make_env()), return_state=True), VIEWS[name](make_env())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        check_env_specs(env)
        env.set_seed(5)
        played = env.rollout(10)

    def as_shown(array: np.ndarray) -> list:
        if plain.observation_space(plain.possible_agents[0]).__class__ is Box:
            return array.tolist()
        return np.eye(257)[array].reshape(-1).tolist()  # TorchRL turns MultiDiscrete observations into one-hot

    plain.reset(seed=5)  # set_seed resets, and the rollout does again
    seen, told = plain.reset()
    assert len(played) == plain.num_turns
    for step in played:
        actions = {}
        assert step["state"].reshape(-1).tolist() == as_shown(plain.state())
        for group, agents in env.group_map.items():
            for i, agent in enumerate(agents):
                assert step[group, "observation"][i].reshape(-1).tolist() == as_shown(seen[agent])
                assert {k: v[i].item() for k, v in step[group, "info"].items()} == pytest.approx(told[agent])
                actions[agent] = step[group, "action"][i].numpy()
        seen, rewards, terminations, _, told = plain.step(actions)
        for group, agents in env.group_map.items():
            after = step["next", group]
            for i, agent in enumerate(agents):
                assert after["observation"][i].reshape(-1).tolist() == as_shown(seen[agent])
                assert after["reward"][i].item() == pytest.approx(rewards[agent])
                assert after["terminated"][i].item() == terminations[agent]
    assert not plain.agents


# -- classic code learns ------------------------------------------------------------------------------------------


def independent_q_learning(env, episodes: int, seed: int, explore: float = 0.2, rate: float = 0.2) -> float:
    """A table of values for each agent, which knows nothing of the others. What they earn in the end, all greedy."""
    rng = np.random.default_rng(seed)
    size = {a: int(getattr(env.action_space(a), "n", 257)) for a in env.possible_agents}
    tables: dict[str, dict[bytes, np.ndarray]] = {a: {} for a in env.possible_agents}

    def values(agent: str, observation: np.ndarray) -> np.ndarray:
        # Random first guesses, or all agents would agree from the start.
        return tables[agent].setdefault(observation.tobytes(), 0.1 * rng.random(size[agent]))

    def choose(agent: str, observation: np.ndarray, explore: float) -> int:
        if rng.random() < explore:
            return int(rng.integers(size[agent]))
        return int(values(agent, observation).argmax())

    def play(explore: float) -> float:
        observations, _ = env.reset()
        total = 0.0
        while env.agents:
            agents = list(env.agents)
            chosen = {a: choose(a, observations[a], explore) for a in agents}
            actions = {a: np.full(env.action_space(a).shape, c) for a, c in chosen.items()}
            following, rewards, terminations, _, _ = env.step(actions)
            for a in agents if explore else ():
                target = rewards[a] + (0.0 if terminations[a] else values(a, following[a]).max())
                values(a, observations[a])[chosen[a]] += rate * (target - values(a, observations[a])[chosen[a]])
            observations, total = following, total + rewards[agents[0]]
        return total

    for _ in range(episodes):
        play(explore)
    return play(explore=0.0)


@pytest.mark.parametrize(
    "env_id, keywords, episodes",
    [
        ("probe/own-word-v0", {}, 500),
        ("probe/same-word-v0", {}, 500),
        # Each agent must see in the second turn what it answered in the first, since a table has no memory.
        ("probe/two-turn-v0", {"history": "full"}, 1_000),
    ],
)
def test_independent_q_learning_on_a_menu(env_id, keywords, episodes):
    env = TokenView(make(env_id, **keywords), length=64, actions="menu", menu=MENU)
    assert independent_q_learning(env, episodes, seed=0) == env.unwrapped.task.optimal_return == 1.0


def test_independent_q_learning_on_bytes():
    env = TokenView(make("probe/own-word-v0"), length={"action": 1})
    # All 257 symbols are tried at random: about 8 times each.
    assert independent_q_learning(env, 2_000, seed=0, explore=1.0) == 1.0


def test_reinforce_on_symbols():
    """One network for both agents, which must read in its observation which of them it is."""
    torch, supersuit = pytest.importorskip("torch"), pytest.importorskip("supersuit")
    view = TokenView(make("probe/own-word-v0"), length=24, keep="start", dtype="int64", actions="menu", menu=MENU)
    vector = supersuit.concat_vec_envs_v1(supersuit.pettingzoo_env_to_vec_env_v1(view), 16)
    observations, _ = vector.reset(seed=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Embedding(257, 8), torch.nn.Flatten(), torch.nn.Linear(24 * 8, 4))
        optimiser = torch.optim.Adam(network.parameters(), lr=0.005)
        earned = []
        for _ in range(80):
            policy = torch.distributions.Categorical(logits=network(torch.as_tensor(observations)))
            actions = policy.sample()
            observations, rewards, *_ = vector.step(actions.numpy())
            advantages = torch.as_tensor(rewards) - rewards.mean()
            loss = -(advantages * policy.log_prob(actions) + 0.02 * policy.entropy()).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            earned.append(rewards.mean())
    assert np.mean(earned[:5]) < 0.5 and np.mean(earned[-10:]) > 0.9

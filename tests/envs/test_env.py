"""The environment contract (DESIGN), line by line."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import toys
from coding_rows import keywords
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec
from toys import NOTHING, ROWS, SOLVED, EndlessTask, LettersTask, endless, picture, play, toy

from llm_marl_envs import Score, Task, TextObservation, UnicodeText
from llm_marl_envs.errors import ConfigError, DataError, InvalidActionError, ResetNeededError, UnknownNameError
from llm_marl_envs.registry import BUILT_IN
from llm_marl_envs.text import fit

joint = st.fixed_dictionaries({"left": st.sampled_from(["", "L"]), "right": st.sampled_from(["", "R", "RR", "RRR"])})


# -- shape of an episode ----------------------------------------------------------------------------------------------


def test_reset_returns_text_for_every_agent_in_order():
    env = toy()
    assert isinstance(env, ParallelEnv)
    assert env.agents == [] and env.possible_agents == ["left", "right"]
    observations, infos = env.reset(options={"index": 3})
    assert list(observations) == env.agents == env.possible_agents
    assert observations == {"left": "left: text 3", "right": "right: text 3"}
    assert all(type(o) is TextObservation for o in observations.values())
    assert infos == {"left": {}, "right": {}}


def test_the_last_turn_terminates_and_returns_all_five_dicts():
    env = endless(num_turns=3)
    steps = play(env, [NOTHING] * 10)[1:]
    assert len(steps) == 3
    for number, (observations, rewards, terminations, truncations, infos) in enumerate(steps, start=1):
        over = number == 3
        for values in (observations, rewards, terminations, truncations, infos):
            assert list(values) == ["left", "right"]
        assert set(terminations.values()) == {over}
        assert set(truncations.values()) == {False}
        assert infos["left"]["turn"] == number
        assert all(env.observation_space(a).contains(o) for a, o in observations.items())
    assert env.agents == []


@pytest.mark.parametrize("num_turns", [1, 2, 5])
def test_a_solved_task_terminates_early(num_turns):
    env = toy(num_turns=num_turns)
    _, (_, _, terminations, truncations, infos) = play(env, [SOLVED])
    assert set(terminations.values()) == {True} and set(truncations.values()) == {False}
    assert infos["left"]["solved"] == 1 and env.agents == []


def test_infos_hold_the_raw_score_and_its_terms():
    env = toy(num_turns=2)
    _, (_, rewards, _, _, infos) = play(env, [{"left": "L", "right": "R"}])
    assert rewards == {"left": -1.5, "right": -1.5}
    for agent in env.possible_agents:
        assert infos[agent] == {
            "terms": {"ell": 1.0, "arr": 0.5}, "score": 1.5, "turn": 1, "solved": 0, "details": {"length": 1}
        }  # fmt: skip
    infos["left"]["terms"]["ell"] = 99.0
    assert infos["right"]["terms"]["ell"] == env.turns[0].score.terms["ell"] == 1.0


def test_it_plays_through_the_aec_form():
    env = parallel_to_aec(toy(num_turns=2))
    env.reset(seed=0)
    asked = []
    for agent in env.agent_iter():
        asked.append(agent)
        over = env.terminations[agent]
        env.step(None if over else "R")
    assert asked == ["left", "right"] * 3
    assert all(type(o) is TextObservation for o in (env.observe("left"), env.observe("right")))


# -- refused steps ----------------------------------------------------------------------------------------------------

BAD = {
    "wrong type": ({"left": 7, "right": "R"}, ["'left'", "int", "str"]),
    "bytes": ({"left": "L", "right": b"R"}, ["'right'", "bytes"]),
    "None": ({"left": None, "right": "R"}, ["'left'", "NoneType"]),
    "missing": ({"right": "R"}, ["'left'", "no action"]),
    "unknown": ({"left": "L", "right": "R", "rihgt": "x"}, ["'rihgt'", "Did you mean 'right'"]),
    "too long": ({"left": "L", "right": "R" * 301}, ["'right'", "301", "300", "clip"]),
    "surrogate": ({"left": "a\ud800", "right": "R"}, ["'left'", "U+D800", "position 1"]),
    "not a dict": (["L", "R"], ["dict", "list"]),
    "empty": ({}, ["'left'"]),
}


@pytest.mark.parametrize("actions, words", BAD.values(), ids=BAD)
def test_a_bad_step_names_the_fault_and_changes_nothing(actions, words):
    env, twin = (toy(num_turns=3, max_text_length=300) for _ in range(2))
    for e in (env, twin):
        play(e, [NOTHING], seed=1)
    before = picture(env)
    with pytest.raises(InvalidActionError) as error:
        env.step(actions)
    assert all(word in str(error.value) for word in words), error.value
    assert picture(env) == before
    assert env.step(SOLVED) == twin.step(SOLVED)


@given(value=st.one_of(st.integers(), st.binary(), st.none(), st.lists(st.text()), st.floats(), st.text(min_size=257)))
def test_anything_outside_the_space_is_refused(value):
    env = toy(max_text_length=256)
    env.reset(seed=0)
    before = picture(env)
    with pytest.raises(InvalidActionError, match="'right'"):
        env.step({"left": "L", "right": value})
    assert picture(env) == before


def test_a_step_without_an_episode_says_to_reset():
    env = toy()
    with pytest.raises(ResetNeededError, match=r"reset\(\)"):
        env.step(SOLVED)
    with pytest.raises(ResetNeededError, match=r"reset\(\)"):
        env.state()
    play(env, [SOLVED])
    before = picture(env)
    with pytest.raises(ResetNeededError, match=r"ended.*reset\(\)"):
        env.step(SOLVED)
    assert picture(env) == before


def test_a_score_or_feedback_that_raises_changes_nothing():
    def score(row, responses):
        raise OSError("no sandbox")

    def feedback(row, transcript, score, agent):
        raise OSError("no model")

    for kwargs in ({"score": score, "max_score": 1.0}, {"feedback": feedback}):
        env = toy(num_turns=3, **kwargs)
        env.reset(seed=0)
        before = picture(env)
        with pytest.raises(OSError, match="no "):
            env.step(NOTHING)
        assert picture(env) == before


def test_a_failing_reset_keeps_the_episode():
    class Failing(LettersTask):
        def prompt(self, row, agent):
            if row["id"] == "r4":
                raise OSError("bad row")
            return super().prompt(row, agent)

    env = toy(Failing(), num_turns=2)
    play(env, [NOTHING], options={"index": 0})
    before = picture(env)[:-1]
    with pytest.raises(OSError, match="bad row"):
        env.reset(options={"index": 4})
    assert picture(env)[:-1] == before


# -- rewards ----------------------------------------------------------------------------------------------------------


def test_joint_and_individual_rewards():
    action = {"left": "L", "right": "R"}
    assert play(toy(), [action])[1][1] == {"left": 1.5, "right": 1.5}
    assert play(toy(reward_mode="individual"), [action])[1][1] == {"left": 1.0, "right": 0.5}
    # Offset: each agent's part minus its largest part.
    assert play(toy(reward_mode="individual", num_turns=2), [action])[1][1] == {"left": 0.0, "right": -1.5}


def test_individual_rewards_need_a_split():
    with pytest.raises(ConfigError, match="per_agent"):
        play(endless(reward_mode="individual"), [NOTHING])

    def half(row, responses):
        return Score.of({"a": 1.0}, per_agent={"left": 1.0})

    with pytest.raises(ConfigError, match=r"no part for \['right'\]"):
        play(toy(reward_mode="individual", score=half), [NOTHING])


@pytest.mark.parametrize(
    "turn_reward, expected",
    [("offset", [-3.0, -1.5, 0.0]), ("sum", [0.0, 1.5, 3.0]), ("last", [0.0, 0.0, 3.0])],
)
def test_turn_rewards(turn_reward, expected):
    steps = play(toy(num_turns=5, turn_reward=turn_reward), [NOTHING, {"left": "L", "right": "R"}, SOLVED])[1:]
    assert [rewards["left"] for _, rewards, *_ in steps] == expected
    assert [infos["left"]["score"] for *_, infos in steps] == [0.0, 1.5, 3.0]


def test_offset_leaves_single_turns_and_unfinishable_tasks_alone():
    assert play(toy(num_turns=1, turn_reward="offset"), [NOTHING])[1][1]["left"] == 0.0
    assert play(endless(num_turns=2, turn_reward="offset"), [NOTHING])[1][1]["left"] == 0.0


def _return(env, actions):
    steps = play(env, actions, seed=0)[1:]
    return {agent: sum(step[1][agent] for step in steps) for agent in env.possible_agents}


weights = st.none() | st.fixed_dictionaries({"ell": st.sampled_from([0.0, 0.1, 1.0, 5.0]), "arr": st.floats(0.0, 4.0)})


@given(before=st.lists(joint, max_size=2), after=st.lists(joint, min_size=1, max_size=3), weights=weights)
@pytest.mark.parametrize("turn_reward", ["offset", "last"])
@pytest.mark.parametrize("reward_mode", ["joint", "individual"])
def test_finishing_early_never_earns_less(turn_reward, reward_mode, before, after, weights):
    env = toy(num_turns=6, turn_reward=turn_reward, reward_mode=reward_mode, weights=weights)
    early, late = _return(env, [*before, SOLVED]), _return(env, [*before, *after, SOLVED])
    assert all(early[agent] >= late[agent] - 1e-9 for agent in early)


def test_summed_scores_would_pay_for_waiting():
    """What `offset` is for: with `sum` the property above is false."""
    env = toy(num_turns=6, turn_reward="sum")
    assert _return(env, [SOLVED])["left"] < _return(env, [{"left": "L", "right": "RRR"}, SOLVED])["left"]


def test_offset_refuses_a_maximum_that_is_exceeded():
    env = toy(num_turns=2, max_score=1.0)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="above its maximum of 1"):
        env.step(SOLVED)


# -- what agents are told ---------------------------------------------------------------------------------------------


def test_without_history_only_what_is_new_is_shown():
    env = toy(num_turns=3, feedback="signals")
    assert env.metadata["history"] == "none"
    steps = play(env, [{"left": "first", "right": "R"}])
    told = steps[1][0]["left"]
    assert "text" not in told and "first" not in told
    assert "0.50" in told


def test_full_history_is_the_agents_own_transcript():
    env = toy(num_turns=4, history="full", feedback="toys:shout")
    assert env.metadata["history"] == "full"
    steps = play(env, [{"left": "one", "right": "R"}, {"left": "two", "right": "RR"}], options={"index": 2})
    assert steps[2][0]["left"] == (
        "left: text 2\n\nYour response:\none\n\nLEFT! 1 turns, 0.5\n\nYour response:\ntwo\n\nLEFT! 2 turns, 1.0"
    )
    assert "RR" not in steps[2][0]["left"] and "two" not in steps[2][0]["right"]


@pytest.mark.parametrize("history", ["none", "full"])
def test_shared_responses_are_the_others_last_ones(history):
    env = toy(num_turns=4, share_responses=True, history=history)
    steps = play(env, [{"left": "one", "right": "RR"}, {"left": "two", "right": "RRR"}])
    told = steps[2][0]
    assert "The last response of right:\nRRR" in told["left"]
    assert "The last response of left:\ntwo" in told["right"]
    assert "The last response of left" not in told["left"]
    assert ("The last response of right:\nRR\n" in told["left"]) is (history == "full")


def test_long_shared_responses_leave_room_for_each_other():
    class Three(Task):
        name, agents, max_terms = "toy/three", ("a", "b", "c"), {"one": 1.0}

        def prompt(self, row, agent):
            return "Write."

        def score(self, row, responses):
            return Score.of({"one": 0.0})

    env = toy(Three(), rows=[{}], num_turns=2, share_responses=True, max_text_length=600)
    told = play(env, [dict.fromkeys("abc", "x" * 600)])[1][0]["b"]
    assert len(told) <= 600 and told.startswith("The last response of a:\nxxx")
    assert "xxx\n\nThe last response of c:\nxxx" in told and told.count("characters left out") == 2


@settings(max_examples=30, deadline=None)
@given(
    num_turns=st.integers(1, 6),
    history=st.sampled_from(["none", "full"]),
    share=st.booleans(),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=3),
    length=st.sampled_from([0, 1, 100, 255, 256]),
)
def test_every_observation_and_state_lies_in_its_space(num_turns, history, share, texts, length):
    env = endless(num_turns=num_turns, history=history, share_responses=share, max_text_length=256)
    text = ("".join(texts) * 256)[:length]
    seen = play(env, [{"left": text, "right": "R" * 256}] * num_turns, seed=0)
    assert len(seen) == num_turns + 1
    for observations, *_ in seen:
        assert all(env.observation_space(a).contains(o) for a, o in observations.items())
    assert env.state_space.contains(env.state())


def test_clipped_history_keeps_the_task_and_what_is_new():
    env = toy(num_turns=6, history="full", max_text_length=256)
    steps = play(env, [{"left": "x" * 256, "right": "R"}] * 3, options={"index": 0})
    for observations, *_ in steps[1:]:
        assert len(observations["left"]) == 256
        assert observations["left"].startswith("left: text 0\n\nYour response:\nxxx")
        assert "characters left out" in observations["left"]
        assert observations["left"].endswith("Answer with the whole new response only.")


def test_a_prompt_beyond_the_limit_is_clipped():
    env = toy(rows=[{"text": "begin " + "y" * 1000 + " end"}], max_text_length=256)
    observation = env.reset()[0]["left"]
    assert len(observation) == 256
    assert observation.startswith("left: begin yyy") and observation.endswith("yyy end")


@given(content=st.text(max_size=400), limit=st.integers(0, 300))
def test_fit_never_exceeds_its_limit(content, limit):
    fitted = fit(content, limit)
    assert len(fitted) <= limit or len(content) <= limit
    assert UnicodeText(1000).contains(fitted)
    if len(content) <= limit and UnicodeText(1000).contains(content):
        assert fitted == content
    if len(content) > limit >= 60:
        assert "left out" in fitted and len(fitted) == limit


def test_lone_surrogates_in_data_become_replacement_characters():
    env = toy(rows=[{"text": "a\udfffb"}])
    assert env.reset()[0]["left"] == "left: a\ufffdb"
    assert env.state_space.contains(env.state())


# -- the state --------------------------------------------------------------------------------------------------------


def test_the_state_holds_the_task_and_all_that_was_seen_and_done():
    env = toy(num_turns=3, feedback="toys:shout")
    play(env, [{"left": "one", "right": "R"}], options={"index": 1})
    assert env.state() == (
        "About: text 1\n\n"
        "[turn 1, left sees]\nleft: text 1\n[turn 1, left writes]\none\n"
        "[turn 1, right sees]\nright: text 1\n[turn 1, right writes]\nR\n\n"
        "[turn 2, left sees]\nLEFT! 1 turns, 0.5\n[turn 2, right sees]\nRIGHT! 1 turns, 0.5"
    )
    env.step(SOLVED)
    assert "[turn 2, right writes]\nRRRR" in env.state() and "turn 3" not in env.state()
    assert "hidden" not in env.state()
    assert env.state_space.contains(env.state())


# -- clones -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(before=st.lists(joint, max_size=2), mine=st.lists(joint, max_size=3), its=st.lists(joint, max_size=3))
def test_a_clone_is_independent_and_goes_on_alike(before, mine, its):
    env, control = (toy(num_turns=4, history="full", share_responses=True) for _ in range(2))
    for e in (env, control):
        play(e, before, seed=3)
    twin = env.clone()
    assert type(twin) is type(env) and picture(twin) == picture(env)
    its_results = [twin.step(a) for a in its if twin.agents]
    after_twin = [env.step(a) for a in mine if env.agents]
    assert after_twin == [control.step(a) for a in mine if control.agents]
    again = toy(num_turns=4, history="full", share_responses=True)
    play(again, before, seed=3)
    assert its_results == [again.step(a) for a in its if again.agents]
    # The random state went along: the next rows are the same.
    assert [env.reset()[0] for _ in range(5)] == [control.reset()[0] for _ in range(5)]


def test_a_clone_with_a_seed_has_fresh_randomness():
    env = toy()
    env.reset(seed=0)
    one, two, other = env.clone(seed=5), env.clone(seed=5), env.clone()
    rows = [[e.reset()[0]["left"] for _ in range(20)] for e in (one, two, other, env)]
    assert rows[0] == rows[1] and rows[2] == rows[3] and rows[0] != rows[2]


def test_a_clones_spaces_sample_on_their_own():
    env = toy()
    env.action_space("left").seed(1)
    twin = env.clone()
    assert [twin.action_space("left").sample() for _ in range(3)] == [
        env.action_space("left").sample() for _ in range(3)
    ]
    twin.state_space.seed(1)
    assert twin.state_space is not env.state_space


def test_a_clone_of_an_ended_and_of_a_fresh_environment():
    env = toy()
    assert env.clone().reset(seed=4) == env.reset(seed=4)
    env.step(SOLVED)
    with pytest.raises(ResetNeededError):
        env.clone().step(SOLVED)


def test_pickling_keeps_the_episode():
    env = toy(num_turns=3)
    play(env, [NOTHING], seed=2)
    twin = pickle.loads(pickle.dumps(env))
    assert picture(twin) == picture(env) and twin.step(SOLVED) == env.step(SOLVED)


# -- seeds and options ------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_row_on_any_copy():
    rows = [{"id": str(i), "text": str(i)} for i in range(100)]
    one, two = toy(rows=rows), toy(rows=rows)
    two.reset(seed=99)
    seen = set()
    for seed in range(50):
        assert one.reset(seed=seed) == two.reset(seed=seed)
        seen.add(one.row["id"])
    assert len(seen) > 30
    # Without a seed both go on with their generators, which are at the same point.
    assert [one.reset()[0] for _ in range(5)] == [two.reset()[0] for _ in range(5)]


@pytest.mark.parametrize("env_id", [i for i in BUILT_IN if i != "probe/same-word-v0"])
def test_the_same_seed_gives_the_same_episode_in_another_process(env_id):
    program = f"""
import json, llm_marl_envs as m
env = m.make({env_id!r}, **{keywords(env_id)!r})
seen = []
for seed in range(3):
    seen.append(env.reset(seed=seed))
    while env.agents:
        seen.append(env.step({{a: "B" for a in env.agents}}))
print(json.dumps(seen))
"""
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1 and len(json.loads(outputs.pop())) >= 6


def test_options_pick_the_row():
    env = toy()
    assert env.reset(options={"index": 4})[0]["left"] == "left: text 4"
    assert env.reset(options={"id": "r2"})[0]["left"] == "left: text 2"
    assert env.reset(seed=3, options={"index": np.int64(1)})[0]["left"] == "left: text 1"
    assert env.reset(seed=3, options={"options": 1}) == toy().reset(seed=3)
    assert toy(rows=[{"id": 7, "text": "seven"}]).reset(options={"id": 7})[0]["left"] == "left: seven"


def test_options_do_not_shift_the_episodes_that_follow():
    one, two = toy(), toy()
    one.reset(seed=5)
    two.reset(seed=5, options={"id": "r0"})
    assert [one.reset()[0] for _ in range(5)] == [two.reset()[0] for _ in range(5)]


@pytest.mark.parametrize("index", [-1, 5, 1.0, "1", True])
def test_a_bad_index_is_refused(index):
    with pytest.raises(ConfigError, match="0 to 4"):
        toy().reset(options={"index": index})


def test_an_unknown_row_id_is_refused():
    with pytest.raises(DataError, match="no row with id 'r9'.*Did you mean 'r"):
        toy().reset(options={"id": "r9"})


def test_no_global_random_state_is_touched():
    random.seed(0)
    np.random.seed(0)
    before = random.getstate(), np.random.get_state()[1].tolist()
    env = toy(num_turns=2)
    play(env, [NOTHING, NOTHING])
    env.clone(seed=1).reset()
    env.action_space("left").sample()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


# -- scores of others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [toys.ten_for_x, "toys:ten_for_x"])
def test_a_score_function_replaces_the_tasks_own(score):
    env = toy(score=score)
    _, (_, rewards, _, _, infos) = play(env, [{"left": "x", "right": "RRRR"}])
    assert rewards["left"] == 10.0 and infos["left"]["terms"] == {"x_left": 10.0, "x_right": 0.0}
    assert env.max_score is None
    with pytest.raises(ConfigError, match="max_score="):
        toy(score=score, num_turns=2)
    late = toy(score=score, num_turns=2, max_score=20.0)
    assert play(late, [{"left": "x", "right": ""}])[1][1]["left"] == -10.0


def test_a_score_function_states_its_own_limits():
    def score(row, responses):
        return Score.of({"a": 1.0}, limits={"a": 4.0})

    env = endless(score=score, num_turns=2, feedback="diagnosis")
    assert "a: 1.00 of 4.00" in play(env, [NOTHING])[1][0]["left"]


def test_weights_multiply_terms():
    env = toy(weights={"arr": 3.0})
    assert env.max_score == 7.0 and env.max_terms == {"ell": 1.0, "arr": 6.0}
    _, (_, rewards, _, _, infos) = play(env, [{"left": "L", "right": "RR"}])
    assert rewards["left"] == 4.0 and infos["left"]["terms"] == {"ell": 1.0, "arr": 3.0}
    assert play(toy(weights={"arr": 0}), [SOLVED])[1][1]["left"] == 1.0


@pytest.mark.parametrize(
    "weights, words", [({"arm": 1.0}, "Did you mean 'arr'"), ({"arr": -1}, "at least 0"), ({"arr": "2"}, "number"),
                       ({"arr": float("nan")}, "number"), ({"arr": float("inf")}, "number")],
)  # fmt: skip
def test_bad_weights_are_refused(weights, words):
    with pytest.raises(ConfigError, match=words):
        toy(weights=weights)


def test_a_bad_score_is_our_fault_and_never_a_reward():
    for bad in (1.0, None, {"total": 1}):
        with pytest.raises(ConfigError, match="must return a Score"):
            play(toy(score=lambda row, responses, bad=bad: bad), [NOTHING])
    for value in (float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="finite"):
            Score.of({"a": value})
        with pytest.raises(ConfigError, match="finite"):
            Score.of({"a": 1.0}, per_agent={"left": value})
    with pytest.raises(ConfigError, match="sum of its terms"):
        Score(total=2.0, terms={"a": 1.0})

    class Solved(EndlessTask):
        def score(self, row, responses):
            return Score.of({"ell": 1.0}, solved=True)

    with pytest.raises(ConfigError, match="can_finish_early"):
        play(toy(Solved()), [NOTHING])


def test_a_score_may_depend_on_earlier_turns():
    class Growing(Task):
        name, agents, max_terms = "toy/growing", ("a",), {"longer": 1.0}

        def prompt(self, row, agent):
            return "Write more each time."

        def score_turn(self, row, turns, responses):
            return Score.of({"longer": float(bool(turns) and len(responses["a"]) > len(turns[-1].actions["a"]))})

    steps = play(toy(Growing(), rows=[{}], num_turns=3), [{"a": "x"}, {"a": "xx"}, {"a": "x"}])[1:]
    assert [rewards["a"] for _, rewards, *_ in steps] == [0.0, 1.0, 0.0]


def test_a_task_may_bound_its_responses():
    class Short(EndlessTask):
        max_response_length = 3

    env = toy(Short())
    assert env.action_space("left").max_length == 3 and env.observation_space("left").max_length == 65_536
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match="'left'.*4 characters, and the limit is 3"):
        env.step({"left": "four", "right": ""})


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kwargs, words",
    [
        ({"num_turns": 0}, "num_turns.*at least 1"),
        ({"num_turns": 1.5}, "num_turns"),
        ({"num_turns": True}, "num_turns"),
        ({"reward_mode": "join"}, "Did you mean 'joint'"),
        ({"turn_reward": "ofset"}, "Did you mean 'offset'"),
        ({"history": "ful"}, "Did you mean 'full'"),
        ({"render_mode": "rgb_array"}, "render_mode"),
        ({"max_text_length": 10}, "at least 256"),
        ({"feedback": None}, "feedback must be"),
        ({"score": 3}, "score must be"),
    ],
)
def test_bad_arguments_are_refused(kwargs, words):
    with pytest.raises(ConfigError, match=words):
        toy(**kwargs)


def test_unknown_modes_and_functions_are_named():
    with pytest.raises(UnknownNameError, match="Did you mean 'revise'"):
        toy(feedback="revize")
    with pytest.raises(UnknownNameError, match="no attribute 'shot'.*Did you mean 'shout'"):
        toy(feedback="toys:shot")
    with pytest.raises(UnknownNameError, match="no module 'nowhere'"):
        toy(score="nowhere:f")


# -- rendering --------------------------------------------------------------------------------------------------------


def test_ansi_rendering_is_the_transcript():
    env = toy(num_turns=2, render_mode="ansi")
    assert "reset()" in env.render()
    play(env, [{"left": "one", "right": "R"}], options={"index": 0})
    assert env.render() == (
        "== toy/letters, row r0, turn 1 ==\n"
        "[turn 1, left sees]\nleft: text 0\n[turn 1, left writes]\none\n"
        "[turn 1, right sees]\nright: text 0\n[turn 1, right writes]\nR\n"
        "[score] 0.50 of 3.00 (ell 0.00, arr 0.50)\n\n"
        "== toy/letters, row r0, turn 2 begins ==\n"
        "[turn 2, left sees]\nWrite your response again and make it better. Answer with the whole new response only.\n"
        "[turn 2, right sees]\nWrite your response again and make it better. Answer with the whole new response only."
    )
    env.step(SOLVED)
    assert "[turn 2, right writes]\nRRRR\n[score] 3.00 of 3.00" in env.render()
    assert env.render().endswith("The episode is over.")


@pytest.mark.parametrize("with_rich", [True, False])
def test_human_rendering_prints_what_each_call_adds(with_rich, capsys, monkeypatch):
    if with_rich:
        pytest.importorskip("rich")
        monkeypatch.setenv("COLUMNS", "100")
    else:
        for name in ("rich", "rich.console", "rich.panel", "rich.text"):
            monkeypatch.setitem(sys.modules, name, None)
    env = toy(num_turns=2, render_mode="human")
    printed = []
    for call in (lambda: env.reset(options={"index": 0}), lambda: env.step(NOTHING), lambda: env.step(SOLVED)):
        call()
        printed.append(capsys.readouterr().out)
    assert ("╭" in printed[0]) is with_rich
    assert "left: text 0" in printed[0] and "writes" not in printed[0]
    assert "turn 1, left writes" in printed[1] and "0.00 of 3.00" in printed[1] and "turn 2 begins" in printed[1]
    assert "text 0" not in printed[1]
    assert "RRRR" in printed[2] and "3.00 of 3.00" in printed[2] and "over" in printed[2]
    assert "turn 1" not in printed[2]
    assert env.render() is None


def test_markup_of_models_is_printed_as_it_is(capsys, monkeypatch):
    pytest.importorskip("rich")
    env = toy(rows=[{"id": "[bold]", "text": "[red]not markup[/red] :smile:"}], render_mode="human")
    env.reset()
    assert "[red]not markup[/red] :smile:" in capsys.readouterr().out


def test_render_without_a_mode_warns():
    env = toy()
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_a_repr_is_short():
    assert (
        repr(toy(rows=ROWS * 0 + ROWS, num_turns=2))
        == "<CollaborationEnv toy/letters agents=['left', 'right'] num_turns=2>"
    )

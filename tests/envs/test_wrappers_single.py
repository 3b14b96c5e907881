"""``SingleAgentView``: one response for all roles, how it is split, and Gymnasium's side of it."""

from __future__ import annotations

import re
import warnings

import gymnasium
import pytest
from effort import at_most
from gymnasium.utils.env_checker import check_env
from hypothesis import assume, example, given
from hypothesis import strategies as st
from teams import Outside, play, team

from llm_marl_envs import UnicodeText, make
from llm_marl_envs.errors import ConfigError, UnknownNameError
from llm_marl_envs.wrappers import Sequential, SingleAgentView
from llm_marl_envs.wrappers.sections import join_sections, split_sections, tags_of

TAGS = {"ann": "ann", "ben": "ben"}


# -- splitting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "response, expected",
    [
        ("<ann>x</ann><ben>y</ben>", {"ann": "x", "ben": "y"}),
        ("<ben>y</ben>\nand\n<ann>x</ann>", {"ann": "x", "ben": "y"}),
        ("Sure!\n<ann>\nx\n</ann>\n\n<ben>\ny\n</ben>\nDone.", {"ann": "x", "ben": "y"}),
        ("<ANN>x</Ann>< ben >y</ ben\t>", {"ann": "x", "ben": "y"}),
        ("<ann> x </ann>", {"ann": "x"}),
        ("<ann>\n x\n\n</ann>", {"ann": " x\n"}),
        ("<ann>\r\nx\r\n</ann>", {"ann": "x\r"}),
        ("<ann></ann>", {"ann": ""}),
        ("<ann>\n</ann>", {"ann": ""}),
        ("", {}),
        ("no tags at all", {}),
        ("</ann>x", {}),
        # A closing tag that was forgotten.
        ("<ann>x", {"ann": "x"}),
        ("<ann>\nx\n<ben>\ny", {"ann": "x", "ben": "y"}),
        ("<ann>x<ben>y</ben>", {"ann": "x", "ben": "y"}),
        # Tags inside.
        ("<ann>x <b>y</b> </i> z</ann>", {"ann": "x <b>y</b> </i> z"}),
        ("<ann>x </ben> y</ann>", {"ann": "x </ben> y"}),
        ("<ann>x <ben>y</ben> z</ann>", {"ann": "x", "ben": "y"}),
        ("<ann>x <ann>y</ann> z</ann>", {"ann": "y"}),
        ("<ann>1 < 2 and <annie></ann>", {"ann": "1 < 2 and <annie>"}),
        # Repeated sections.
        ("<ann>x</ann><ann>y</ann>", {"ann": "x"}),
        ("I put it in <ann> and <ben> tags.\n<ann>x</ann><ben>y</ben>", {"ann": "x", "ben": "y"}),
        ("<ann>x</ann><ann>y", {"ann": "x"}),
        ("<ann>x <ben> y <ann> z", {"ann": "x", "ben": "y"}),
        # Not quite tags.
        ("<ann x=1>x</ann>", {}),
        ("<\nann>x</ann>", {}),
        ("<     ann>x</ann>", {}),
        ("<ann/>x", {}),
    ],
)
def test_splitting(response, expected):
    assert split_sections(response, TAGS) == expected


texts = st.text(st.sampled_from("<>/ \t\n\rabn") | st.characters(codec="utf-8"), max_size=40)


@given(st.fixed_dictionaries({"ann": texts, "ben": texts}))
@example({"ann": "\n\nx \n", "ben": "<"})
@example({"ann": "</", "ben": "\r"})
def test_joined_texts_come_back_whole(written):
    assume(not any(re.search(r"<[ \t]*/?[ \t]*(ann|ben)[ \t]*>", text, re.IGNORECASE) for text in written.values()))
    assert split_sections(join_sections(written, TAGS), TAGS) == written
    assert split_sections("Sure: " + join_sections(written, TAGS) + " That is all.", TAGS) == written


pieces = st.sampled_from(["<ann>", "</ann>", "<ben>", "</ben>", "< ANN >", "<", ">", "\n", " ", "x", "ı"]) | st.text()


@given(st.lists(pieces).map("".join))
def test_any_text_is_split(response):
    found = split_sections(response, TAGS)
    assert set(found) <= set(TAGS)
    assert all(text in response for text in found.values())
    assert split_sections(response, {}) == {}


@pytest.mark.parametrize(
    "piece", ["<", "< ", "<    ", "</", "</    ", "<ann>", "</ann>", "<ann", "<ann    ", "<ann><ben>", "< / < / ann"]
)
def test_no_text_is_slow(piece):
    long = piece * (1_000_000 // len(piece))
    with at_most(10):  # well under a second; quadratic time would be hours
        split_sections(long, TAGS)
        split_sections(" " * 1_000_000 + long, TAGS)


def test_tags_of_strange_names():
    assert tags_of(["ann", "data-x.1"]) == {"ann": "ann", "data-x.1": "data-x.1"}
    assert tags_of(["agent 1", "a<b>"]) == {"agent 1": "agent_1", "a<b>": "a_b_"}
    for same in (["a b", "a_b"], ["A", "a"], ["", "x"]):
        assert list(tags_of(same).values()) == ["role_1", "role_2"]
    role = "(.*) [x]"
    tags = tags_of([role])
    assert split_sections(join_sections({role: "hello"}, tags), tags) == {role: "hello"}
    assert split_sections("<i>1</i><ı>2</ı>", {"i": "i", "ı": "ı"}) == {"i": "1", "ı": "2"}


# -- the view -----------------------------------------------------------------------------------------------------


def test_one_agent_sees_and_writes_for_all():
    view = SingleAgentView(team(num_turns=2))
    assert view.possible_agents == ["solo"] and view.agents == [] and view.roles == ("ann", "ben", "cat")
    observations, infos = view.reset(options={"index": 1})
    assert observations == {
        "solo": "What ann is told:\nann: text 1\n\nWhat ben is told:\nben: text 1\n\nWhat cat is told:\ncat: text 1\n\n"
        "You write for ann, ben and cat. Give one response with a section for each of them, between its tags like "
        "this:\n<ann>\n...\n</ann>\n<ben>\n...\n</ben>\n<cat>\n...\n</cat>"
    }
    assert infos == {"solo": {"acts": 1}} and view.agents == ["solo"]
    response = join_sections({"ann": "ann", "cat": "I am cat"}, view.tags)
    observations, rewards, terminations, truncations, infos = view.step({"solo": response})
    assert rewards == {"solo": 2.0} and terminations == truncations == {"solo": False}
    assert infos["solo"]["terms"] == {"named": 2.0} and infos["solo"]["missing_sections"] == 1
    assert view.unwrapped.turns[0].actions == {"ann": "ann", "ben": "", "cat": "I am cat"}
    observations, rewards, terminations, truncations, infos = view.step({"solo": "nothing of use"})
    assert observations == {"solo": "The episode is over."} and rewards == {"solo": 0.0}
    assert terminations == {"solo": True} and infos["solo"]["missing_sections"] == 3 and view.agents == []


def test_it_earns_what_the_roles_would():
    env, view = make("writing/tldr-v0", num_turns=2), SingleAgentView(make("writing/tldr-v0", num_turns=2), "author")
    env.reset(seed=2)
    view.reset(seed=2)
    for texts in ({"summarizer": "Eggs " * 10, "elaborator": "however " * 30}, {"summarizer": "a b", "elaborator": ""}):
        _, rewards, terminations, _, infos = env.step(texts)
        _, earned, ended, _, told = view.step({"author": join_sections(texts, view.tags)})
        assert earned == {"author": rewards["summarizer"]} and ended == {"author": terminations["summarizer"]}
        assert told["author"]["terms"] == infos["summarizer"]["terms"]


def test_rewards_of_their_own_are_summed():
    response = {"solo": join_sections({"ann": "ann", "ben": "ben"}, tags_of(["ann", "ben"]))}
    for options, expected in (({}, 2.0), ({"reward_mode": "individual"}, 2.0)):
        view = SingleAgentView(team(**options))
        view.reset(seed=0)
        assert view.step(response)[1] == {"solo": expected}
    mean = SingleAgentView(team(reward_mode="individual"), joint_reward="mean")
    mean.reset(seed=0)
    assert mean.step(response)[1] == {"solo": pytest.approx(2 / 3)}
    # Equal parts are summed as well.
    view = SingleAgentView(team(reward_mode="individual"))
    view.reset(seed=0)
    assert view.step({"solo": "<ann>ann</ann><ben>ben</ben><cat>cat</cat>"})[1] == {"solo": 3.0}


def test_different_rewards_of_a_third_party_need_a_word():
    view = SingleAgentView(Outside())
    view.reset(seed=0)
    assert view.step({"solo": "<x>ab</x><y>cc</y>"})[1] == {"solo": 2.0}
    with pytest.raises(ConfigError, match="different rewards.*'x': 1.0, 'y': 2.0.*joint_reward='sum'.* or 'mean'"):
        view.step({"solo": "<x>a</x><y>cc</y>"})
    view = SingleAgentView(Outside(), joint_reward="sum")
    view.reset(seed=0)
    assert view.step({"solo": "<x>a</x><y>cc</y>"})[1] == {"solo": 3.0}


def test_sections_are_fitted_to_the_space_of_their_role():
    view = SingleAgentView(Outside(), joint_reward="sum")
    view.reset(seed=0)
    view.step({"solo": "<x>A-b-c-abcabcabc</x>"})
    assert view.env.log == [{"x": "bcabc", "y": "a"}]  # what the charset and the limit allow; the shortest text
    probe = SingleAgentView(make("probe/own-word-v0"))
    probe.reset(seed=0)
    assert probe.step({"solo": "<agent_1> B </agent_1><agent_2>\nDDD\n</agent_2>"})[1] == {"solo": 1.0}


def test_a_huge_response_is_data():
    view = SingleAgentView(team(max_text_length=256))
    view.reset(seed=0)
    longest = view.action_space("solo").max_length
    response = "<ann>" + "x" * (longest - 5)
    view.step({"solo": response})
    assert view.unwrapped.turns[0].actions == {"ann": "x" * 256, "ben": "", "cat": ""}
    whole = join_sections(dict.fromkeys(view.roles, "y" * 256), view.tags)
    assert view.action_space("solo").contains(whole)
    assert view.observation_space("solo").contains(view.reset(seed=0)[0]["solo"])


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"agent": ""}, "agent must be"),
        ({"agent": 3}, "agent must be"),
        ({"joint_reward": "max"}, "joint_reward must be 'sum', 'mean' or None, not 'max'"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ConfigError, match=words):
        SingleAgentView(team(), **arguments)


def test_only_roles_that_are_asked_are_asked_for():
    view = SingleAgentView(Sequential(team()))
    seen = [view.reset(seed=0)]
    while view.agents:
        seen.append(view.step({"solo": "<ann>ann</ann><ben>ben</ben><cat>cat</cat>"}))
    forms = [observations["solo"].partition("You write for ")[2].partition(".")[0] for observations, *_ in seen]
    assert forms == ["ann", "ben", "cat", ""]
    assert [r[1]["solo"] for r in seen[1:]] == [0.0, 0.0, 3.0]
    assert [r[4]["solo"]["missing_sections"] for r in seen[1:]] == [0, 0, 0]


def test_a_step_in_which_nobody_is_asked():
    view = SingleAgentView(Outside(asks=[[], ["x"]]), joint_reward="sum")
    observations, infos = view.reset(seed=0)
    assert infos == {"solo": {"acts": 0}} and "what you write is ignored" in observations["solo"]
    episode = play(view, lambda agent, seen: "<x>ab</x>", seed=0)
    assert [r[1]["solo"] for r in episode[1:]] == [0.0, 2.0]


# -- Gymnasium ----------------------------------------------------------------------------------------------------

GYMNASIUM_ID = "llm_marl_envs/SingleAgent-v0"


@pytest.mark.parametrize(
    "keywords",
    [
        {"env_id": "writing/tldr-v0"},
        {"env_id": "writing/arxiv-v0", "num_turns": 3, "history": "full", "reward_mode": "individual"},
        {"env_id": "probe/two-turn-v0", "num_agents": 3, "render_mode": "ansi"},
    ],
)
def test_gymnasiums_own_checker_passes_without_a_warning(keywords, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(GYMNASIUM_ID, **keywords)
        check_env(env.unwrapped)
        observation, info = env.reset(seed=4)
        over = False
        while not over:
            assert isinstance(env.observation_space, UnicodeText) and observation in env.observation_space
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            over = terminated or truncated
            assert isinstance(reward, float) and {"terms", "missing_sections", "acts"} <= set(info)
        env.close()


def test_the_gymnasium_side_plays_the_same_episode():
    view = SingleAgentView(team(num_turns=2))
    env = SingleAgentView(team(num_turns=2)).gymnasium()
    assert env.reset(seed=3) == tuple(part["solo"] for part in view.reset(seed=3))
    response = "<ann>ann</ann>"
    for _ in range(2):
        assert env.step(response) == tuple(part["solo"] for part in view.step({"solo": response}))
    assert env.reset(options={"index": 2})[0] == view.reset(options={"index": 2})[0]["solo"]
    ansi = gymnasium.make(GYMNASIUM_ID, env_id="probe/own-word-v0", render_mode="ansi")
    ansi.reset(seed=0)
    assert "agent_1 sees" in ansi.render() and ansi.render_mode == "ansi"


def test_errors_of_gymnasium_make():
    with pytest.raises(UnknownNameError, match="Did you mean 'writing/tldr-v0'"):
        gymnasium.make(GYMNASIUM_ID, env_id="writing/tlrd-v0")
    with pytest.raises(ConfigError, match="takes no keyword 'num_turn'. Did you mean 'num_turns'"):
        gymnasium.make(GYMNASIUM_ID, env_id="writing/tldr-v0", num_turn=2)

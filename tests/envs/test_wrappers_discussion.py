"""``Discussion``: topologies, messages word for word, and what words cost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from teams import asked, play, team
from toys import toy

from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError
from llm_marl_envs.wrappers import Discussion, Sequential
from llm_marl_envs.wrappers.topology import hearing

ABC = ["a", "b", "c"]
FIVE = ["a", "b", "c", "d", "e"]


# -- who hears whom -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topology, agents, expected",
    [
        ("all", ABC, {"a": "bc", "b": "ac", "c": "ab"}),
        ("all", ["a", "b"], {"a": "b", "b": "a"}),
        ("ring", FIVE, {"a": "be", "b": "ac", "c": "bd", "d": "ce", "e": "ad"}),
        ("ring", ABC, {"a": "bc", "b": "ac", "c": "ab"}),
        ("ring", ["a", "b"], {"a": "b", "b": "a"}),
        ("star", FIVE, {"a": "bcde", "b": "a", "c": "a", "d": "a", "e": "a"}),
        ({"a": ["c", "b"], "b": [], "c": ("a",)}, ABC, {"a": "bc", "b": "", "c": "a"}),
        ({"a": {"b"}, "b": []}, ["a", "b"], {"a": "b", "b": ""}),
    ],
)
def test_topologies(topology, agents, expected):
    assert hearing(topology, agents) == {a: tuple(names) for a, names in expected.items()}


def test_the_hub_can_be_chosen():
    assert hearing("star", ABC, hub="c") == {"a": ("c",), "b": ("c",), "c": ("a", "b")}
    assert Discussion(team(), topology="star", hub="ben").hears["ben"] == ("ann", "cat")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"topology": "rnig"}, "topology='rnig' is not one of 'all', 'ring', 'star'. Did you mean 'ring'"),
        ({"topology": None}, "topology=None is not one of"),
        ({"topology": {"ann": ["ben"], "ben": []}}, r"no list for \['cat'\].*\[\] for one that hears nobody"),
        ({"topology": {}}, r"no list for \['ann', 'ben', 'cat'\]"),
        ({"topology": {"ann": ["bem"], "ben": [], "cat": []}}, "unknown agent 'bem'. Did you mean 'ben'"),
        ({"topology": {"anne": [], "ben": [], "cat": []}}, "unknown agent 'anne'. Did you mean 'ann'"),
        ({"topology": {"ann": ["ann"], "ben": [], "cat": []}}, "names 'ann' itself.*take it out"),
        ({"topology": {"ann": ["ben", "ben"], "ben": [], "cat": []}}, "names an agent twice"),
        ({"topology": {"ann": "ben", "ben": [], "cat": []}}, r"topology\['ann'\] must be a list.*not 'ben'"),
        ({"topology": {"ann": None, "ben": [], "cat": []}}, r"topology\['ann'\] must be a list.*not None"),
        ({"topology": {"ann": [], "ben": [], "cat": []}}, "none of the agents .* hears another"),
        ({"hub": "ann"}, "hub='ann' is for topology='star' only, and the topology is 'all'"),
        ({"topology": "star", "hub": "bob"}, "hub='bob' is no agent"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, not 0"),
        ({"rounds": 1.5}, "rounds must be"),
        ({"rounds": True}, "rounds must be"),
        ({"message_cost": -0.1}, "message_cost must be a finite number of at least 0, not -0.1"),
        ({"message_cost": math.inf}, "message_cost must be"),
        ({"message_cost": math.nan}, "message_cost must be"),
        ({"message_cost": "1"}, "message_cost must be"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Discussion(team(), **arguments)


def test_nobody_to_talk_to():
    with pytest.raises(ConfigError, match="none of the agents .'agent_1'. hears another"):
        Discussion(make("probe/own-word-v0", num_agents=1))


# -- messages -----------------------------------------------------------------------------------------------------


def test_one_round_step_by_step():
    env = Discussion(toy())
    observations, infos = env.reset(options={"index": 1})
    assert observations["left"] == (
        "left: text 1\n\nDo not answer yet. First write a message. right will read it before you all answer. It can be a "
        "draft of your answer, a plan or a question. Write only the message."
    )
    assert infos == {"left": {"acts": 1}, "right": {"acts": 1}}
    observations, rewards, terminations, truncations, infos = env.step({"left": "LL, two words", "right": ""})
    assert observations == {
        "left": "The message of right (turn 1, round 1):\n\n\nNow give your answer.",
        "right": "The message of left (turn 1, round 1):\nLL, two words\n\nNow give your answer.",
    }
    assert rewards == {"left": 0.0, "right": 0.0}
    assert not any(terminations.values()) and not any(truncations.values())
    assert infos == {
        "left": {"terms": {}, "message_words": 3, "acts": 1},
        "right": {"terms": {}, "message_words": 0, "acts": 1},
    }
    assert "[turn 1, round 1, left writes]\nLL, two words" in env.state()
    *_, terminations, _, infos = env.step({"left": "L", "right": "RR"})
    assert infos["left"]["score"] == 2.0 and infos["left"]["terms"] == {"ell": 1.0, "arr": 1.0}
    assert all(terminations.values())
    assert "[turn 1, round 1, left writes]\nLL, two words" in env.state()


def test_rounds_and_turns():
    env = Discussion(team(num_turns=2), rounds=3)
    episode = play(env, lambda agent, seen: f"{agent} {len(seen)}", seed=0)
    assert asked(episode) == [["ann", "ben", "cat"]] * 8 + [[]]
    assert [r[1]["ann"] for r in episode[1:]] == [0, 0, 0, 3, 0, 0, 0, 3]
    first, second = episode[0][0]["ann"], episode[1][0]["ann"]
    assert "(round 1 of 3)" in first and "(round 2 of 3)" in second
    assert "text" in first and "text" not in second  # it remembers what it has been told
    assert "(turn 2, round 3)" in episode[7][0]["cat"] and "(turn 1" not in episode[7][0]["cat"]


def test_each_hears_its_neighbours_only():
    env = Discussion(team(), topology={"ann": [], "ben": ["ann"], "cat": ["ann", "ben"]})
    episode = play(env, lambda agent, seen: f"word of {agent}", seed=0)
    assert asked(episode) == [["ann", "ben"], ["ann", "ben", "cat"], []]  # nobody hears cat: it is not asked
    start, then = episode[0][0], episode[1][0]
    assert start["cat"] == "Wait: the others are writing messages."
    assert "ben and cat will read it" in start["ann"] and "cat will read it" in start["ben"]
    assert then["ann"] == "Now give your answer."
    assert "word of ann" in then["ben"] and "word of cat" not in then["ben"] and "word of ben" not in then["ben"]
    assert then["cat"].startswith("cat: text") and "word of ann" in then["cat"] and "word of ben" in then["cat"]


def test_who_waits_finds_the_messages_of_all_rounds():
    env = Discussion(team(), rounds=2, topology={"ann": ["ben"], "ben": ["ann"], "cat": ["ann"]})
    episode = play(env, lambda agent, seen: f"{agent} says", seed=0)
    assert asked(episode) == [["ann", "ben"], ["ann", "ben"], ["ann", "ben", "cat"], []]
    last = episode[2][0]["cat"]
    assert last.index("(turn 1, round 1):") < last.index("(turn 1, round 2):") < last.index("Now give your answer.")


def test_agents_without_memory_see_all_that_was_said():
    env = Discussion(team(num_turns=2, history="full"), rounds=2)
    episode = play(env, lambda agent, seen: f"{agent}!", seed=0)
    seen = episode[5][0]["ben"]
    parts = ["ben: text", "Your response:\nben!"]
    for turn in (1, 2):
        for number in (1, 2):
            parts += [f"{a} (turn {turn}, round {number}):\n{a}!" for a in ("ann", "cat")]
    assert all(seen.count(part) == 1 for part in parts)
    assert [seen.count(f"Your message (turn {t}, round {r}):\nben!") for t in (1, 2) for r in (1, 2)] == [1] * 4
    order = [seen.index(f"(turn {t}, round {r})") for t in (1, 2) for r in (1, 2)]
    assert order == sorted(order) and seen.endswith("Now give your answer.")


def test_it_earns_what_the_plain_environment_pays_for_the_same_answers():
    for options in ({}, {"reward_mode": "individual"}):
        plain, env = team(num_turns=2, **options), Discussion(team(num_turns=2, **options), rounds=2)
        plain.reset(seed=1)
        inside = play(env, lambda agent, seen: agent[:3], seed=1)[1:]
        for number in range(2):
            expected = plain.step({a: a[:3] for a in plain.agents})
            assert inside[3 * number + 2][1:4] == expected[1:4]


def test_the_longest_messages_fit_whole():
    env = Discussion(
        team(num_turns=2, max_text_length=500),
        rounds=2,
        topology={"ann": ["ben"], "ben": ["ann"], "cat": ["ann", "ben"]},
    )
    for observations, *_ in play(env, lambda agent, seen: agent[0] * 500, seed=0):
        assert all(env.observation_space(a).contains(o) for a, o in observations.items())
        assert env.state_space.contains(env.state())
        if "Now give" in observations["cat"]:
            assert observations["cat"].count("a" * 500) == observations["cat"].count("b" * 500) == 2
        assert "left out" not in env.state()


def test_a_new_episode_knows_nothing_of_the_last():
    env = Discussion(team(num_turns=2, history="full"), topology={"ann": ["ben"], "ben": ["ann"], "cat": ["ann"]})
    first = play(env, lambda agent, seen: "secret", seed=0)
    env.reset(seed=0)
    env.step({"ann": "secret", "ben": "secret"})
    assert first == play(env, lambda agent, seen: "secret", seed=0)


def test_messages_before_a_sequential_environment():
    """Every step of the inner protocol is a turn of the outer one: who is asked says what it is about to write."""
    env = Discussion(Sequential(team()))
    episode = play(env, lambda agent, seen: agent if "Now give your answer" in seen else "draft", seed=0)
    assert asked(episode) == [["ann"], ["ann"], ["ben"], ["ben"], ["cat"], ["cat"], []]
    assert "The message of ann (turn 1, round 1):\ndraft" in episode[2][0]["ben"]
    assert "The response of ann (turn 1):\nann" in episode[2][0]["ben"]
    assert episode[-1][1]["ann"] == 3.0


# -- what words cost ----------------------------------------------------------------------------------------------


def test_a_joint_reward_stays_joint():
    env = Discussion(team(), message_cost=0.25)
    env.reset(seed=0)
    assert "Every word of it costs 0.25 of the reward." in env.reset(seed=0)[0]["ann"]
    _, rewards, _, _, infos = env.step({"ann": "one two\nthree", "ben": " \t ", "cat": "four"})
    assert rewards == dict.fromkeys(env.agents, -1.0)
    assert all(info["terms"] == {"message_cost": -1.0} for info in infos.values())
    assert [infos[a]["message_words"] for a in env.agents] == [3, 0, 1]
    _, rewards, _, _, infos = env.step({"ann": "ann", "ben": "x", "cat": "x"})
    assert rewards["ann"] == 1.0 and infos["ann"]["terms"] == {"named": 1.0} and infos["ann"]["score"] == 1.0


def test_individual_rewards_pay_for_their_own_words():
    env = Discussion(team(reward_mode="individual"), message_cost=0.5)
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step({"ann": "one two three", "ben": "", "cat": "four"})
    assert rewards == {"ann": -1.5, "ben": 0.0, "cat": -0.5}
    assert {a: info["terms"] for a, info in infos.items()} == {a: {"message_cost": r} for a, r in rewards.items()}


@given(st.lists(st.text(max_size=30), min_size=3, max_size=3), st.sampled_from(["joint", "individual"]))
def test_terms_sum_to_the_reward(texts, mode):
    env = Discussion(team(reward_mode=mode), message_cost=0.125)
    env.reset(seed=0)
    actions = dict(zip(env.agents, texts, strict=True))
    _, rewards, _, _, infos = env.step(actions)
    for agent in actions:
        assert rewards[agent] == sum(infos[agent]["terms"].values()) <= 0.0
        assert str(rewards[agent]) != "-0.0"
    assert sum(info["message_words"] for info in infos.values()) == len(" ".join(texts).split())


def test_free_messages_have_no_term_and_no_price_in_the_prompt():
    env = Discussion(team())
    assert "costs" not in env.reset(seed=0)[0]["ann"]
    *_, infos = env.step(dict.fromkeys(env.agents, "a b c"))
    assert infos["ann"]["terms"] == {} and "score" not in infos["ann"]

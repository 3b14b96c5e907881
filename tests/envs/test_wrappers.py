"""What holds for every protocol: it keeps the contract, wraps anything, is wrapped by anything, and clones."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from coding_rows import HUMANEVAL_ROWS
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec
from pettingzoo.utils.wrappers import BaseParallelWrapper
from teams import Outside, asked, play, team
from toys import toy

from llm_marl_envs import CollaborationEnv, ParallelVectorEnv, check_env, make
from llm_marl_envs.checks import check_ignored_actions
from llm_marl_envs.errors import (
    CheckFailedError,
    CloneUnsupportedError,
    ConfigError,
    InvalidActionError,
    ResetNeededError,
    UnknownNameError,
)
from llm_marl_envs.wrappers import PROTOCOLS, Discussion, Sequential, SingleAgentView, wrap

WRAPPERS = {
    "sequential": Sequential,
    "reverse": lambda env: Sequential(env, list(reversed(env.possible_agents))),
    "discussion": Discussion,
    "costly": lambda env: Discussion(env, rounds=2, topology="ring", message_cost=0.125),
    "star": lambda env: Discussion(env, topology="star"),
    "single": lambda env: SingleAgentView(env, joint_reward=None if hasattr(env, "reward_mode") else "sum"),
    "both": lambda env: Sequential(Discussion(env)),
    "swapped": lambda env: Discussion(Sequential(env)),
    "all three": lambda env: WRAPPERS["single"](Discussion(Sequential(env))),
}
every_wrapper = pytest.mark.parametrize("build", WRAPPERS.values(), ids=WRAPPERS.keys())
ENVIRONMENTS = {
    "own-word": lambda: make("probe/own-word-v0", num_agents=3),
    "two-turn": lambda: make("probe/two-turn-v0"),
    "tldr": lambda: make("writing/tldr-v0", render_mode="ansi"),
    "tldr, two turns": lambda: make("writing/tldr-v0", num_turns=2, history="full", reward_mode="individual"),
    "arxiv": lambda: make("writing/arxiv-v0"),
    "arxiv, two turns": lambda: make("writing/arxiv-v0", num_turns=2, feedback="diagnosis", max_text_length=300),
    "team": lambda: team(num_turns=2, history="full", max_text_length=256),
}


# -- the table ----------------------------------------------------------------------------------------------------


def test_protocols_are_found_by_name():
    env = team()
    assert sorted(PROTOCOLS) == ["discussion", "parallel", "sequential", "single"]
    assert wrap(env) is wrap(env, "parallel") is env
    assert type(wrap(env, "sequential", order=["cat", "ann", "ben"])) is Sequential
    assert wrap(env, "discussion", rounds=3).rounds == 3
    assert wrap(env, "single").possible_agents == ["solo"]
    assert type(wrap(env, "llm_marl_envs.wrappers.single:SingleAgentView")) is SingleAgentView
    assert type(wrap(env, Sequential)) is Sequential


def test_what_is_wrong_is_named():
    env = team()
    with pytest.raises(UnknownNameError, match="Unknown protocol 'sequental'. Did you mean 'sequential'"):
        wrap(env, "sequental")
    with pytest.raises(ConfigError, match="'discussion' takes no keyword 'round'. Did you mean 'rounds'.*topology"):
        wrap(env, "discussion", round=2)
    with pytest.raises(ConfigError, match="'parallel' takes no keyword 'order'. It takes none"):
        wrap(env, order=[])
    with pytest.raises(ConfigError, match="protocol must be"):
        wrap(env, 7)


@every_wrapper
def test_other_spaces_are_refused(build):
    class Numbers(Outside):
        def action_space(self, agent):
            return Discrete(3)

    with pytest.raises(ConfigError, match=r"wraps text environments; action_space\('x'\) of outside is Discrete\(3\)"):
        build(Numbers())


# -- the contract -------------------------------------------------------------------------------------------------


@every_wrapper
@pytest.mark.parametrize("make_env", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_every_protocol_keeps_the_contract(build, make_env):
    assert check_env(build(make_env())) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("num_turns", [1, 2])
def test_coding_tasks_too(protocol, num_turns):
    env = make("coding/humaneval-v0", data=HUMANEVAL_ROWS, num_turns=num_turns)
    assert check_env(wrap(env, protocol)) == []


@every_wrapper
def test_a_plain_environment_of_a_third_party_works_with_notes(build):
    notes = check_env(build(Outside()), strict=False)
    assert any("no np_random" in note for note in notes) and any("defines no clone()" in note for note in notes)
    with pytest.raises(CloneUnsupportedError, match="outside cannot be cloned: its class Outside defines no clone"):
        build(Outside()).clone()


@every_wrapper
def test_same_seed_same_episode_and_options_reach_the_environment(build):
    one, two = build(team(num_turns=2)), build(team(num_turns=2))
    two.reset()
    letters = lambda agent, seen: f"{agent} {len(seen)}"  # noqa: E731
    for seed in range(4):
        assert play(one, letters, seed=seed) == play(two, letters, seed=seed)
    for index in range(4):
        observations, _ = one.reset(options={"index": index})
        assert any(f"text {index}" in seen for seen in observations.values())
    assert one.np_random is one.unwrapped.np_random
    assert one.reset(seed=1)[0] != one.reset(seed=2)[0] or one.reset(seed=1)[0] != one.reset(seed=3)[0]


@every_wrapper
def test_attributes_and_metadata(build):
    inside = team(num_turns=2, history="full")
    env = build(inside)
    assert env.unwrapped is inside and env.max_score == 3.0 and inside.num_turns == 2
    assert env.metadata["history"] == "full" and env.metadata["name"] == "toy/team"
    assert env.metadata["protocol"] == env.protocol in PROTOCOLS
    assert "protocol" not in inside.metadata
    assert type(env).__name__ in repr(env) and "toy/team" in repr(env)


@every_wrapper
def test_num_turns_is_how_many_steps_an_episode_takes(build):
    env = build(team(num_turns=2))
    env.reset(seed=0)
    steps = 0
    while env.agents:
        env.step(dict.fromkeys(env.agents, "a"))
        steps += 1
    assert env.num_turns == steps
    with pytest.raises(AttributeError):
        build(Outside()).num_turns  # noqa: B018


# -- bad steps ----------------------------------------------------------------------------------------------------


@every_wrapper
@pytest.mark.parametrize("make_env", [team, Outside], ids=["ours", "a third party's"])
def test_a_bad_step_names_what_is_wrong_and_changes_nothing(build, make_env):
    env = build(make_env())
    with pytest.raises(ResetNeededError, match=r"call reset\(\) first"):
        env.step({})
    before = env.reset(seed=0)
    agent = next(a for a, info in before[1].items() if info["acts"])
    good = {a: "a" for a in env.agents}
    limit = env.action_space(agent).max_length
    for bad, words in [
        (None, "takes a dict agent -> text, not NoneType"),
        ({**good, "nobody": "a"}, "Unknown agent 'nobody'"),
        ({a: t for a, t in good.items() if a != agent}, f"Agent '{agent}' has no action"),
        ({**good, agent: 7}, f"agent '{agent}' is not in its space: it is of type int, and must be a str"),
        ({**good, agent: "a" * (limit + 1)}, f"agent '{agent}' is not in its space: it has .*{limit:,}"),
    ]:
        with pytest.raises(InvalidActionError, match=words):
            env.step(bad)
    again = build(make_env())
    again.reset(seed=0)
    assert env.step(good) == again.step(good)


@every_wrapper
def test_a_failure_inside_changes_nothing(build):
    class Fails(CollaborationEnv):
        broken = False

        def step(self, actions):
            if self.broken:
                raise OSError("disk full")
            return super().step(actions)

    env = build(Fails(team().task, team().rows, num_turns=2))
    whole = play(env, lambda a, seen: f"{a} {len(seen)}", seed=0)
    observations, infos = env.reset(seed=0)
    for expected in whole[1:]:
        actions = {a: f"{a} {len(observations[a])}" for a in env.agents}
        env.unwrapped.broken, before = True, env.state()
        try:
            result = env.step(actions)
        except OSError:
            assert env.state() == before
            env.unwrapped.broken = False
            result = env.step(actions)
        env.unwrapped.broken = False
        assert result == expected
        observations = result[0]


@every_wrapper
def test_what_the_others_hand_in_is_ignored(build):
    for make_env in (team, Outside):
        plain, noisy = build(make_env()), build(make_env())
        first = plain.reset(seed=0)
        assert first == noisy.reset(seed=0)
        infos = first[1]
        while plain.agents:
            good = {a: "a" for a in plain.agents if infos[a]["acts"]}
            result = plain.step(good)
            assert result == noisy.step({**dict.fromkeys(noisy.agents, 12345), **good})
            infos = result[-1]


class Heeds(Sequential):
    """Broken: the action of an agent that is not asked reaches the reward."""

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, {a: r + len(actions["cat"]) for a, r in rewards.items()}, *rest


def test_check_env_finds_an_environment_that_heeds_them():
    with pytest.raises(
        CheckFailedError, match=r"Step 1 depends on the action of an agent whose infos\[agent\]\['acts'\] was 0"
    ):
        check_ignored_actions(Heeds(team()))
    check_ignored_actions(Heeds(team(), ["cat", "ann", "ben"]).env)
    with pytest.raises(CheckFailedError, match="depends on the action of an agent"):
        check_env(Heeds(team()))


# -- clones -------------------------------------------------------------------------------------------------------


@every_wrapper
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_clones_part_at_any_point_and_go_their_own_ways(build, data):
    env = build(team(num_turns=2, history=data.draw(st.sampled_from(["none", "full"]))))
    steps = len(play(env, lambda a, seen: "a", seed=3)) - 1
    cut = data.draw(st.integers(0, steps - 1))
    words = st.text("abc <>/\n", max_size=12)
    observations, infos = env.reset(seed=3)
    for _ in range(cut):
        observations, *_, infos = env.step({a: data.draw(words) for a in env.agents})
    twin = env.clone()
    assert type(twin) is type(env) and twin.unwrapped is not env.unwrapped and twin.state() == env.state()
    mine = [{a: data.draw(words) for a in env.agents} for _ in range(steps - cut)]
    other = {a: "quite another text" for a in env.agents}
    before = env.state()
    while twin.agents:  # to its end, with other texts
        twin.step(other)
    assert env.state() == before != twin.state() and env.agents
    third = env.clone()
    assert [env.step(actions) for actions in mine] == [third.step(actions) for actions in mine]
    assert env.state() == third.state()
    assert not env.agents and not third.agents


@every_wrapper
def test_a_clone_has_its_own_randomness_and_spaces(build):
    env = build(team())
    env.reset(seed=0)
    twin, fresh = env.clone(), env.clone(seed=99)
    agent = env.possible_agents[0]
    assert twin.np_random is not env.np_random
    assert twin.np_random.random() == env.np_random.random() != fresh.np_random.random()
    for space in ("observation_space", "action_space"):
        assert getattr(twin, space)(agent) is not getattr(env, space)(agent)
        assert getattr(twin, space)(agent) == getattr(env, space)(agent)
    assert env.observation_space(agent) is env.observation_space(agent)


@every_wrapper
def test_pickles_and_deep_copies(build):
    env = build(team(num_turns=2))
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, "ann"))
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert twin.state() == env.state()
        assert twin.step(dict.fromkeys(twin.agents, "ben")) == env.clone().step(dict.fromkeys(env.agents, "ben"))


def test_a_subclass_needs_a_clone_of_its_own():
    class Mine(Sequential):
        pass

    assert type(Mine(team()).clone()) is Mine
    with pytest.raises(CloneUnsupportedError, match="its class Mine defines no clone"):
        Discussion(Mine(team())).clone()


# -- inside other wrappers ----------------------------------------------------------------------------------------


class Shout(BaseParallelWrapper):
    """A plain wrapper of PettingZoo's kind."""

    def step(self, actions):
        observations, *rest = super().step(actions)
        return {a: o.upper() for a, o in observations.items()}, *rest


@every_wrapper
def test_inside_and_around_a_plain_pettingzoo_wrapper(build):
    write = lambda agent, seen: agent if "text" in seen.lower() else "?"  # noqa: E731
    plain = play(build(team()), write, seed=0)
    outer = play(Shout(build(team())), write, seed=0)
    assert [r[1:] for r in outer[1:]] == [r[1:] for r in plain[1:]]
    assert all(o == o.upper() for result in outer[1:] for o in result[0].values())
    inner = play(build(Shout(team())), write, seed=0)
    assert [r[1:] for r in inner[1:]] == [r[1:] for r in plain[1:]]


@every_wrapper
def test_as_aec_and_back(build):
    env = build(team(num_turns=2))
    direct = build(team(num_turns=2))
    direct.reset(seed=4)
    aec = parallel_to_aec(env)  # with PettingZoo's OrderEnforcingWrapper around it
    aec.reset(seed=4)
    paid = dict.fromkeys(env.possible_agents, 0.0)
    expected = dict.fromkeys(env.possible_agents, 0.0)
    for agent in aec.agent_iter():
        observation, _, terminated, _, _ = aec.last()
        assert env.observation_space(agent).contains(observation)
        aec.step(None if terminated else agent)
        if agent == env.possible_agents[-1]:
            for a, reward in aec.rewards.items():
                paid[a] += 0 if terminated else reward
    while direct.agents:
        for a, reward in direct.step({a: a for a in direct.agents})[1].items():
            expected[a] += reward
    assert paid == expected
    back = aec_to_parallel(parallel_to_aec(build(team())))
    assert back.reset(seed=1)[0] == build(team()).reset(seed=1)[0]


@every_wrapper
def test_many_copies_stepped_together(build):
    vector = ParallelVectorEnv(lambda: build(team(num_turns=2)), 3)
    single = [build(team(num_turns=2)) for _ in range(3)]
    assert vector.reset(seed=5)[0] == [env.reset(seed=5 + i)[0] for i, env in enumerate(single)]
    while vector.running:
        actions = [{a: f"{a} {i}" for a in env.agents} for i, env in enumerate(single)]
        stepped = vector.step(actions)
        assert [tuple(part[i] for part in stepped) for i in range(3)] == [
            env.step(given) for env, given in zip(single, actions, strict=True)
        ]
    vector.close()


# -- third parties ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, expected",
    [
        (Sequential, [["x"], ["y"], ["y"], [], ["x"], ["y"], []]),
        (Discussion, [["x", "y"], ["x", "y"], ["y"], ["y"], [], ["x", "y"], ["x", "y"], []]),
        (WRAPPERS["single"], [["solo"], ["solo"], [], ["solo"], []]),
    ],
)
def test_who_is_not_asked_by_the_environment_is_left_out(build, expected):
    inside = Outside(asks=[["x", "y"], ["y"], [], ["x", "y"]])
    write = lambda agent, seen: "<x>\nab\n</x><y>ab</y>" if agent == "solo" else "ab"  # noqa: E731
    episode = play(build(inside), write, seed=1)
    assert asked(episode) == expected
    assert inside.log == [{"x": "ab", "y": "ab"}, {"y": "ab"}, {}, {"x": "ab", "y": "ab"}]
    total = {a: sum(result[1][a] for result in episode[1:]) for a in episode[0][0]}
    assert total == ({"solo": 10.0} if "solo" in total else {"x": 4.0, "y": 6.0})


@pytest.mark.parametrize("build", [Sequential, Discussion, WRAPPERS["single"]])
def test_an_agent_that_leaves(build):
    inside = Outside(asks=[["x", "y"]] * 2, leaver="x")
    env = build(inside)
    write = lambda agent, seen: "<x>a</x><y>bb</y>" if agent == "solo" else {"x": "a", "y": "bb"}[agent]  # noqa: E731
    episode = play(env, write, seed=1)
    assert inside.log == [{"x": "a", "y": "bb"}, {"y": "bb"}]
    if "solo" in env.possible_agents:
        assert [r[1]["solo"] for r in episode[1:]] == [3.0, 2.0]
        assert [r[2]["solo"] for r in episode[1:]] == [False, True]
        assert "<x>" not in episode[1][0]["solo"] and "<y>" in episode[1][0]["solo"]
        return
    (last,) = [r for r in episode[1:] if r[2].get("x")]
    assert last[0]["x"] == "seed 1 turn 1" and last[1] == {"x": 1.0, "y": 2.0}
    after = episode[episode.index(last) + 1 :]
    assert all("x" not in part for result in after for part in result)
    if build is Discussion:  # nobody is left to talk to
        assert len(after) == 1


def test_truncation_passes_through():
    class Cut(Outside):
        def step(self, actions):
            seen, rewards, ended, _, infos = super().step(actions)
            return seen, rewards, dict.fromkeys(ended, False), ended, infos

    for build in (Sequential, Discussion, SingleAgentView):
        *_, (_, _, terminated, truncated, _) = play(build(Cut()), lambda a, seen: "a", seed=0)
        assert not any(terminated.values()) and all(truncated.values())


def test_an_environment_whose_state_is_no_text_keeps_it():
    class Arrays(Outside):
        def state(self):
            return np.zeros(3)

    for build in (Sequential, Discussion, SingleAgentView):
        env = build(Arrays())
        env.reset(seed=0)
        env.step(dict.fromkeys(env.agents, "a"))
        assert env.state().tolist() == [0, 0, 0]
        without = build(Outside())
        without.reset(seed=0)
        with pytest.raises(NotImplementedError):
            without.state()


def test_wrappers_are_parallel_environments():
    assert all(isinstance(build(toy()), ParallelEnv) for build in WRAPPERS.values())


# -- a person who watches -----------------------------------------------------------------------------------------


def test_human_rendering_prints_what_is_written_inside_a_turn(capsys):
    env = Sequential(team(render_mode="human"))
    play(env, lambda agent, seen: f"I am {agent}", seed=0)
    shown = capsys.readouterr().out
    assert shown.index("turn 1, ann writes") < shown.index("turn 1, ben writes") < shown.index("cat writes")
    play(Discussion(team(render_mode="human"), rounds=2), lambda agent, seen: f"I am {agent}", seed=0)
    assert "turn 1, round 2, cat writes" in capsys.readouterr().out


def test_ansi_rendering_holds_it_too():
    env = Sequential(team(render_mode="ansi"))
    env.reset(seed=0)
    env.step({"ann": "hello from ann"})
    assert env.render().endswith("[turn 1, ann writes]\nhello from ann")
    assert "== toy/team" in env.render()
    env = Discussion(team(render_mode="ansi"))
    env.reset(seed=0)
    env.step({"ann": "one", "ben": "two", "cat": "three"})
    assert env.render().endswith("[turn 1, round 1, cat writes]\nthree")


def test_importing_the_package_does_not_import_the_protocols():
    program = (
        "import sys, llm_marl_envs, gymnasium\n"
        "assert 'llm_marl_envs/SingleAgent-v0' in gymnasium.registry\n"
        "assert not [name for name in sys.modules if name.startswith('llm_marl_envs.wrappers')]\n"
        "gymnasium.make('llm_marl_envs/SingleAgent-v0', env_id='probe/own-word-v0').reset(seed=0)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

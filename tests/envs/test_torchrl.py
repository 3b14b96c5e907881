"""``TextEnv`` under TorchRL's own checks, rollouts, batched environments, collectors and losses."""

from __future__ import annotations

import pytest

pytest.importorskip("torchrl")

import torch
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo import ParallelEnv
from teams import Outside, team
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import SerialEnv, check_env_specs
from torchrl.envs.utils import MarlGroupMapType
from torchrl.modules import MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from toys import toy

from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError, InvalidActionError, ResetNeededError
from llm_marl_envs.integrations.torchrl import TextEnv
from llm_marl_envs.wrappers import Sequential

INFOS = ["score", "turn", ("terms", "ell")]
CASES = {
    "one group": lambda: TextEnv(make("probe/own-word-v0", num_agents=3), return_state=True, info_keys=["score"]),
    "group each": lambda: TextEnv(make("probe/two-turn-v0"), group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT),
    "roles together": lambda: TextEnv(
        make("writing/tldr-v0", num_turns=2), group_map={"all": ["elaborator", "summarizer"]}
    ),
    "solved early": lambda: TextEnv(toy(num_turns=4), return_state=True, info_keys=INFOS, device="cpu"),
    "sequential": lambda: TextEnv(Sequential(team(num_turns=2))),
    "outside": lambda: TextEnv(Outside((("x", "y"), ("y",)), leaver="x")),
}


def texts(observation):
    """A policy's answers to nested lists of observations: each depends on all of what was seen."""
    if isinstance(observation, str):
        return "LR"[len(observation) % 2] * (sum(map(ord, observation)) % 5)
    return [texts(one) for one in observation]


def writer(env):
    """A policy for any of the environments: what it writes fits into their action spaces."""

    def write(group):
        agents = env.group_map[group]

        def answer(observation):
            if observation and isinstance(observation[0], str):
                return [
                    env.parallel_env.action_space(a).clip(texts(o)) for a, o in zip(agents, observation, strict=True)
                ]
            return [answer(row) for row in observation]

        return TensorDictModule(answer, in_keys=[(group, "observation")], out_keys=[(group, "action")])

    return TensorDictSequential(*[write(group) for group in env.group_map])


def by_hand(env, write, seeds, length):
    """The same play, stepped through PettingZoo's API: for each step what was seen, asked, written, paid and ended."""
    record, seeds = [], iter(seeds)
    while len(record) < length:
        observations, infos = env.reset(seed=next(seeds))
        while env.agents and len(record) < length:
            seen = {a: str(observations.get(a, "")) for a in env.possible_agents}
            asked = [a for a in env.agents if infos.get(a, {}).get("acts", 1)]
            actions = {a: write(a, seen[a]) for a in env.agents}
            state = env.state()
            observations, rewards, terminations, truncations, infos = env.step(actions)
            record.append((state, seen, asked, actions, rewards, observations, infos, not env.agents, env.state()))
    return record


@pytest.mark.parametrize("case", CASES)
def test_torchrls_own_check(case):
    env = CASES[case]()
    check_env_specs(env, seed=0, break_when_any_done="both")
    serial = SerialEnv(2, CASES[case])
    check_env_specs(serial)
    serial.close()


def test_agents_are_grouped_as_torchrl_groups_them():
    groups = {name: build().group_map for name, build in CASES.items()}
    assert groups["one group"] == {"agent": ["agent_1", "agent_2", "agent_3"]}
    assert groups["group each"] == {"agent_1": ["agent_1"], "agent_2": ["agent_2"]}
    assert groups["roles together"] == {"all": ["elaborator", "summarizer"]}
    assert groups["solved early"] == {"left": ["left"], "right": ["right"]}


def compare(batch, record):
    """A rollout of ``toy`` against the record by hand, step by step: texts, numbers and state."""
    assert batch.shape[-1] == len(record)
    for step, (state, seen, asked, actions, rewards, observations, infos, over, next_state) in zip(
        batch.unbind(-1), record, strict=True
    ):
        assert step["state"] == state and step["next", "state"] == next_state
        for agent in ("left", "right"):
            assert list(step[agent, "observation"]) == [seen[agent]]
            assert list(step[agent, "action"]) == [actions[agent]]
            assert step[agent, "mask"].tolist() == [agent in asked]
            assert list(step["next", agent, "observation"]) == [observations[agent]]
            assert step["next", agent, "reward"].tolist() == [[rewards[agent]]]
            assert step["next", agent, "done"].tolist() == [[over]]
            assert step["next", agent, "terminated"].tolist() == [[over]]
            assert not step["next", agent, "truncated"].any()
            info = step["next", agent, "info"]
            assert info["score"].tolist() == [infos[agent]["score"]]
            assert info["turn"].tolist() == [infos[agent]["turn"]]
            assert info["terms", "ell"].tolist() == [infos[agent]["terms"]["ell"]]
        assert step["next", "done"].tolist() == step["next", "terminated"].tolist() == [over]


def write_letters(agent, seen):
    return texts(seen)


@settings(max_examples=8)
@given(seed=st.integers(0, 2**31 - 1))
def test_a_rollout_is_what_stepping_by_hand_gives(seed):
    env = TextEnv(toy(num_turns=4), return_state=True, info_keys=INFOS)
    env.set_seed(seed)
    batch = env.rollout(9, writer(env), break_when_any_done=False)
    compare(batch, by_hand(toy(num_turns=4), write_letters, [seed, *[None] * 9], 9))


def test_batched_copies_and_a_collector_see_their_own_rows():
    def build():
        return TextEnv(toy(num_turns=3), return_state=True, info_keys=INFOS)

    seeds = [5]  # a batched environment gives each copy the seed that `set_seed` of the one before returns
    for _ in range(2):
        seeds.append(build().set_seed(seeds[-1]))
    records = [by_hand(toy(num_turns=3), write_letters, [seed, *[None] * 9], 8) for seed in seeds]
    assert len({record[0][1]["left"] for record in records}) > 1

    serial = SerialEnv(3, build)
    serial.set_seed(5)
    batch = serial.rollout(8, writer(build()), break_when_any_done=False)
    for row, record in zip(batch.unbind(0), records, strict=True):
        compare(row, record)

    collected = SerialEnv(3, build)
    collected.set_seed(5)
    collector = Collector(collected, writer(build()), frames_per_batch=12, total_frames=24)
    batches = list(collector)
    for i, record in enumerate(records):
        for number, batch in enumerate(batches):
            compare(batch[i], record[4 * number : 4 * number + 4])


def test_a_plain_function_is_a_policy_and_reset_picks_a_row():
    env = TextEnv(toy())

    def policy(tensordict):
        tensordict["left", "action"] = ["L"]
        tensordict["right", "action"] = ["RR"]
        return tensordict

    start = env.reset(options={"index": 3})
    assert list(start["left", "observation"]) == ["left: text 3"]
    batch = env.rollout(5, policy, auto_reset=False, tensordict=start)
    assert batch.shape == (1,) and batch["next", "left", "reward"].item() == 2.0
    assert list(env.reset(seed=9)["left", "observation"]) == [toy().reset(seed=9)[0]["left"]]


def test_who_is_not_asked_is_masked_and_what_it_hands_in_is_ignored():
    env = TextEnv(Sequential(team()))
    now = env.reset(options={"index": 1})
    said = {"ann": "ann", "ben": "ben", "cat": "x"}
    for turn in said:
        assert {a: now[a, "mask"].item() for a in said} == {a: a == turn for a in said}
        for agent in said:
            now[agent, "action"] = [said[agent] if agent == turn else "\ud800 no text that a space allows"]
        after = env.step(now)["next"]
        now = after.exclude("reward")
    assert after["ann", "reward"].item() == 2.0 and after["done"].item()
    assert not any(after[a, "mask"].item() for a in said)


def test_an_agent_that_leaves_is_done_and_the_others_go_on():
    env = TextEnv(Outside((("x", "y"), ("y",), ("y",)), leaver="x"))

    def policy(tensordict):
        return tensordict.set(("x", "action"), ["a"]).set(("y", "action"), ["bb"])

    batch = env.rollout(4, policy, break_when_any_done=False)
    x, y, whole = batch["next", "x"], batch["next", "y"], batch["next"]
    assert x["done"].flatten().tolist() == [True, True, True, True]
    assert y["done"].flatten().tolist() == whole["done"].flatten().tolist() == [False, False, True, False]
    assert batch["x", "mask"].flatten().tolist() == [True, False, False, True]
    assert [x[i]["observation"][0] for i in range(4)] == ["seed None turn 1", "", "", "seed None turn 1"]
    assert x["reward"].flatten().tolist() == [1, 0, 0, 1] and y["reward"].flatten().tolist() == [2, 2, 2, 2]


def test_an_episode_that_was_cut_is_truncated():
    class Cut(Outside):
        def step(self, actions):
            seen, rewards, ends, _, infos = super().step(actions)
            return seen, rewards, dict.fromkeys(ends, False), ends, infos

    batch = TextEnv(Cut()).rollout(5)
    last = batch[-1]["next"]
    assert batch.shape == (2,) and last["done"].item() and last["truncated"].item() and not last["terminated"].item()
    assert last["x", "truncated"].item() and not last["x", "terminated"].item()


def test_infos_that_an_environment_does_not_give_are_nan():
    env = TextEnv(toy(num_turns=2), info_keys=[*INFOS, "nothing", ("terms", "nothing")])
    start = env.reset(seed=0)
    assert all(torch.isnan(value).all() for value in start["left", "info"].values(True, True))
    info = env.rollout(1)["next", "left", "info"]
    assert torch.isnan(info["nothing"]).all() and torch.isnan(info["terms", "nothing"]).all()
    assert info["turn"].item() == 1


class Numbers(ParallelEnv):
    possible_agents = ("a",)

    def observation_space(self, agent):
        return Discrete(3)

    action_space = observation_space


@pytest.mark.parametrize(
    "build, words",
    [
        (lambda: TextEnv("probe/own-word-v0"), "TextEnv takes a pettingzoo.ParallelEnv"),
        (lambda: TextEnv(Numbers()), r"observation_space\('a'\) of .* is Discrete\(3\).*Turn it into"),
        (lambda: TextEnv(toy(), group_map={"g": ["left"]}), "right wasn't found .*exactly one group"),
        (lambda: TextEnv(toy(), group_map={"g": ["left", "right", "up"]}), "Agent up wasn't present"),
        (lambda: TextEnv(Outside(), return_state=True).reset(), r"state\(\) returns a text.*not implemented"),
    ],
)
def test_what_is_no_text_environment_is_refused(build, words):
    with pytest.raises(ConfigError, match=words):
        build()


def test_wrong_actions_are_refused_and_change_nothing():
    env = TextEnv(make("probe/own-word-v0"))
    start = env.reset(seed=0)
    for action, words in (
        (["A", None], "agent 'agent_2' must be a text"),
        (["A", "too long"], "'agent_2' is not in its space: it has 8 characters"),
        (torch.zeros(2), "must hold 2 texts"),
    ):
        with pytest.raises(InvalidActionError, match=words):
            env.step(start.clone().set(("agent", "action"), action))
    with pytest.raises(InvalidActionError, match=r"must hold 2 texts.*tensordict\['agent', 'action'\] = "):
        env.step(start.clone())
    after = env.step(start.set(("agent", "action"), ["B", "D"]))
    assert after["next", "agent", "reward"].tolist() == [[1.0], [1.0]]
    with pytest.raises(ResetNeededError):
        env.step(start)


# -- training ---------------------------------------------------------------------------------------------------------

WORDS = "ABCD"


def count_bytes(observation):
    """Features of nested lists of texts: (..., 256) how often each byte occurs."""
    if isinstance(observation, str):
        return torch.bincount(torch.tensor(list(observation.encode())), minlength=256) / 4
    return torch.stack([count_bytes(one) for one in observation])


def spell(word):
    return [spell(w) for w in word] if word.ndim else WORDS[word]


@pytest.mark.parametrize(
    "env_id, batches",
    [("probe/own-word-v0", 8), pytest.param("probe/same-word-v0", 12, marks=pytest.mark.slow)],  # docs/ runs it too
)
def test_torchrls_mappo_learns(env_id, batches):
    """TorchRL's collector, networks, GAE and PPO loss; near the optimum of 1 from a random 1/4."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        earned = train(env_id, batches)
    assert sum(earned[:2]) / 2 < 0.6 and sum(earned[-2:]) / 2 > 0.9


def train(env_id, batches):
    envs = SerialEnv(4, lambda: TextEnv(make(env_id)))
    envs.set_seed(0)
    observation, features, logits = ("agent", "observation"), ("agent", "features"), ("agent", "logits")
    word, action, value = ("agent", "word"), ("agent", "action"), ("agent", "state_value")
    see = TensorDictModule(count_bytes, [observation], [features])
    net = MultiAgentMLP(256, len(WORDS), n_agents=2, centralised=False, share_params=False, depth=0)
    actor = ProbabilisticActor(
        TensorDictModule(net, [features], [logits]),
        in_keys={"logits": logits},
        out_keys=[word],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    policy = TensorDictSequential(see, actor, TensorDictModule(spell, [word], [action]))
    judge = MultiAgentMLP(256, 1, n_agents=2, centralised=True, share_params=True, depth=0)
    loss = ClipPPOLoss(actor, TensorDictModule(judge, [features], [value]), normalize_advantage=True)
    loss.set_keys(
        action=word,
        sample_log_prob=("agent", "word_log_prob"),
        value=value,
        reward=("agent", "reward"),
        done=("agent", "done"),
        terminated=("agent", "terminated"),
    )
    loss.make_value_estimator(gamma=1.0, lmbda=1.0)
    optimizer = torch.optim.Adam(loss.parameters(), 0.02)
    earned = []
    for batch in Collector(envs, policy, frames_per_batch=64, total_frames=64 * batches):
        see(batch["next"])
        with torch.no_grad():
            loss.value_estimator(batch)
        for _ in range(4):
            losses = loss(batch.reshape(-1))
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
            optimizer.step()
        earned.append(batch["next", "agent", "reward"].mean().item())
    return earned

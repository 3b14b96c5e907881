"""Rollouts over real environments with scripted samplers: who is asked what, and how the branches hang together."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete, Text
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper

from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.errors import EpisodeError, NonFiniteError, ReplayError
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Response
from llm_marl_baselines.rollout import collect
from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError


class Sampler:
    """Answers with random letters, keeps every call, and numbers nothing: what any third-party policy could be."""

    def __init__(self, letters="ABCD"):
        self.letters, self.calls = letters, []

    def generate(self, requests, *, seed, greedy=False):
        self.calls.append(list(requests))
        rng = np.random.default_rng(seed)
        pick = (lambda: self.letters[0]) if greedy else (lambda: str(rng.choice(list(self.letters))))
        return [[Response(t, t) for t in (pick() for _ in range(r.num_samples))] for r in requests]


def two_turn():
    return make("probe/two-turn-v0")


def play(plan, make_env=two_turn, starts=1, policy=None, **kwargs):
    policy = policy or Sampler()
    env = make_env()
    return collect(
        dict.fromkeys(env.possible_agents, policy),
        make_env,
        [Start(i) for i in range(starts)],
        plan,
        **{"seed": 3, **kwargs},
    )


def test_aligned_tree():
    batch = play(Plan(3), starts=2)
    assert batch.turn.tolist() == [0, 0] + [1] * 6  # a node per root, then one per first joint action
    assert len(batch.rewards) == 2 * (3 + 9) == Plan(3).count(2, 2, 2)
    assert batch.parent[:6].tolist() == [-1] * 6
    assert batch.parent[6:].tolist() == sorted(list(range(6)) * 3)
    # A node at depth t weighs G^-t, a response 1/G in it; each turn of a root and an agent sums to 1.
    assert np.unique(batch.weight[batch.turn[batch.response_node] == 0]) == pytest.approx([1 / 3])
    assert np.unique(batch.weight[batch.turn[batch.response_node] == 1]) == pytest.approx([1 / 9])
    # The g-th responses of both agents form joint action g.
    for k, (left, right) in enumerate(batch.step_response):
        assert batch.response_node[left] == batch.response_node[right] == batch.step_node[k]
        same_node = np.flatnonzero(batch.response_node == batch.step_node[k])
        mine = [same_node[batch.response_agent[same_node] == i].tolist() for i in (0, 1)]
        assert mine[0].index(left) == mine[1].index(right)


def test_cross_tree_takes_every_pair():
    batch = play(Plan(2, pairing="cross"))
    assert len(batch.rewards) == 4 + 16
    first = {tuple(row) for row in batch.step_response[:4]}
    assert first == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert batch.weight[:4].tolist() == [0.5] * 4
    assert np.unique(batch.weight[4:]).tolist() == [0.25 * 0.5]  # G^(-N t) / G


def test_chains():
    batch = play(Plan(4, shape="chains"), starts=2)
    assert len(batch.rewards) == 2 * (4 + 4)
    assert np.unique(batch.weight).tolist() == [0.25]  # 1/G at every turn
    groups = batch.group[batch.response_node]
    late = batch.turn[batch.response_node] == 1
    assert len(np.unique(groups[late])) == 2  # the living chains of a root are one group


def test_rewards_and_returns_follow_the_game():
    batch = play(Plan(4), policy=Sampler())
    for k in np.flatnonzero(batch.terminated):
        first = batch.step_response[batch.parent[k]]
        second = batch.step_response[k]
        text = lambda row: [batch.responses[b].text for b in row]  # noqa: E731
        share = lambda got, want: sum(a == b for a, b in zip(got, want, strict=True)) / 2  # noqa: E731
        assert batch.rewards[k].tolist() == [share(text(first), "BD") * share(text(second), "CA")] * 2
    assert (batch.rewards[batch.turn[batch.step_node] == 0] == 0).all()


def test_all_questions_of_a_turn_are_one_call_and_equal_questions_are_asked_once():
    policy = Sampler()
    play(Plan(3), starts=4, policy=policy)
    assert len(policy.calls) == 2
    # The probe's four starts show the same text: one request an agent with 4 x 3 samples.
    assert [(r.agent, r.num_samples) for r in policy.calls[0]] == [("agent_1", 12), ("agent_2", 12)]
    asked = [(r.agent, r.messages) for r in policy.calls[1]]
    assert len({(a, str(m)) for a, m in asked}) == len(asked)
    assert sum(r.num_samples for r in policy.calls[1]) == 2 * 4 * 3 * 3


def test_chat_memory_holds_the_own_answers_only():
    policy = Sampler()
    batch = play(Plan(2, shape="chains"), policy=policy)
    for request in policy.calls[1]:
        roles = [m["role"] for m in request.messages]
        assert roles == ["user", "assistant", "user"]
        assert request.messages[2]["content"].startswith("Turn 2 of 2")
    said = {r.messages[1]["content"] for r in policy.calls[1] if r.agent == "agent_1"}
    assert said == {batch.responses[b].text for b in batch.step_response[:2, 0]}


def test_observation_memory_shows_the_newest_observation_only():
    policy = Sampler()
    play(Plan(2), policy=policy, memory="observation")
    assert all(len(r.messages) == 1 for call in policy.calls for r in call)
    full = Sampler()
    play(Plan(2), lambda: make("probe/two-turn-v0", history="full"), policy=full)
    later = [r.messages for r in full.calls[1]]
    assert all(len(m) == 1 and "Your response:" in m[0]["content"] for m in later)


def test_two_policies_are_asked_apart():
    left, right = Sampler("A"), Sampler("B")
    batch = collect({"agent_1": left, "agent_2": right}, two_turn, [Start(0)], Plan(2), seed=0)
    assert {r.agent for call in left.calls for r in call} == {"agent_1"}
    assert [r.text for r in batch.responses[:4]] == ["A", "A", "B", "B"]


def test_same_seed_same_batch_other_seed_other_batch():
    texts = [[r.text for r in play(Plan(4), seed=s).responses] for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_histories_and_states_come_before_the_actions():
    batch = play(Plan(2))
    assert "writes" not in batch.histories[0]
    assert batch.histories[1].count("writes") == 2
    assert batch.histories[1] == batch.states[1]
    first = batch.responses[batch.step_response[0, 0]].text
    assert f"[turn 1, agent_1 writes]\n{first}" in batch.histories[1]


def test_too_many_joint_actions_are_refused_before_any_is_sampled():
    policy = Sampler()
    with pytest.raises(ConfigError, match="272 joint actions.*max_joint_actions is 200"):
        play(Plan(16, max_joint_actions=200), policy=policy)
    assert policy.calls == []


def test_every_agent_needs_a_policy():
    with pytest.raises(ConfigError, match="agent_2"):
        collect({"agent_1": Sampler()}, two_turn, [Start(0)], Plan(2), seed=0)


@pytest.mark.parametrize("bad", [{"group_size": 0}, {"shape": "bush"}, {"shape": "chains", "pairing": "cross"}])
def test_bad_plans(bad):
    with pytest.raises(ConfigError):
        Plan(**bad)


def test_a_solved_branch_ends_and_its_weight_is_not_passed_on():
    class EndsOnA(Plain):
        def over(self, actions):
            return actions["left"] == "A"

    batch = play(Plan(4), EndsOnA, policy=Sampler("AB"))
    first = [batch.responses[b].text for b in batch.step_response[:4, 0]]
    assert "A" in first and "B" in first
    assert batch.terminated[:4].tolist() == [t == "A" for t in first]
    assert (batch.turn == 1).sum() == first.count("B")
    assert batch.weight[batch.turn[batch.response_node] == 1].sum() == pytest.approx(2 * first.count("B") / 4)
    chains = play(Plan(4, shape="chains"), EndsOnA, policy=Sampler("AB"))
    alive = (~chains.terminated[:4]).sum()
    late = chains.turn[chains.response_node] == 1
    assert chains.weight[late].tolist() == [0.25] * (2 * alive)
    # The baseline of the second turn is over the living chains.
    advantages = MAGRPO(MAGRPO.Config(joint_reward="mean", shape="chains")).advantages(chains)
    assert advantages[late & (chains.response_agent == 0)].sum() == pytest.approx(0)


# -- third-party environments ---------------------------------------------------------------------------------------


class Plain(ParallelEnv):
    """What an outsider would write: no clone, no state, a plain Text space, its own horizon."""

    metadata = {"name": "plain"}
    render_mode = None

    def __init__(self):
        self.possible_agents = ["left", "right"]

    def observation_space(self, agent):
        return Text(100, charset="abcdefghijklmnopqrstuvwxyz0123456789 AB")

    def action_space(self, agent):
        return Text(3, min_length=1, charset="ABC")

    def reset(self, seed=None, options=None):
        self.agents, self.seed, self.log = list(self.possible_agents), seed, []
        return {a: f"start {seed}" for a in self.agents}, {a: {} for a in self.agents}

    def over(self, actions):
        return len(self.log) == 2

    def step(self, actions):
        self.log.append(dict(actions))
        over = self.over(actions) or len(self.log) == 2
        agents = self.agents
        seen = {a: f"seed {self.seed} turn {len(self.log)} {self.log[-1]['left'][:1]}" for a in agents}
        if over:
            self.agents = []
        paid = {"left": float(actions["left"] == "A"), "right": float(len(actions["right"]))}
        return seen, paid, dict.fromkeys(agents, over), dict.fromkeys(agents, False), {a: {} for a in agents}


def test_an_environment_without_clone_is_replayed():
    batch = play(Plan(3), Plain, starts=2, policy=Sampler("ABC"))
    assert len(batch.rewards) == 2 * (3 + 9)
    assert batch.states == [None] * len(batch.turn)
    for k in np.flatnonzero(batch.turn[batch.step_node] == 1):
        node = batch.step_node[k]
        before = batch.step_response[batch.parent[k]]
        seen = f"seed {batch.root[node]} turn 1 {batch.responses[before[0]].text}"
        assert batch.observations[node] == {"left": seen, "right": seen}
    left = [batch.responses[b].text == "A" for b in batch.step_response[:, 0]]
    assert batch.rewards[:, 0].tolist() == [float(x) for x in left]
    assert batch.scores.tolist() == batch.rewards.mean(axis=1).tolist()


def test_a_wrapper_that_only_forwards_clone_is_replayed_whole():
    class Shout(BaseParallelWrapper):
        def reset(self, seed=None, options=None):
            observations, infos = super().reset(seed, options)
            return {a: t.upper() for a, t in observations.items()}, infos

        def step(self, actions):
            observations, *rest = super().step(actions)
            return {a: t.upper() for a, t in observations.items()}, *rest

    batch = play(Plan(2), lambda: Shout(two_turn()))
    assert all(text == text.upper() for seen in batch.observations for text in seen.values())
    assert len(batch.rewards) == 2 + 4


def test_an_environment_that_does_not_replay_is_refused():
    class Moody(Plain):
        resets = 0

        def reset(self, seed=None, options=None):
            observations, infos = super().reset(seed, options)
            Moody.resets += 1
            return {a: f"{t} {Moody.resets}" for a, t in observations.items()}, infos

    with pytest.raises(ReplayError, match="plain.*'left' sees other text at turn 1"):
        play(Plan(2), Moody, policy=Sampler("ABC"))


def test_rambling_text_is_cut_to_the_space_and_counted():
    class Rambler(Sampler):
        def generate(self, requests, *, seed, greedy=False):
            return [[Response("AxBC and more", "")] * r.num_samples for r in requests]

    batch = play(Plan(2), Plain, policy=Rambler())
    assert batch.rewards[:, 1].tolist() == [3.0] * 6  # "ABC": what the charset and the limit of 3 allow
    assert batch.clipped.all()
    mute = play(Plan(2), Plain, policy=Sampler("?"))
    assert mute.rewards[:, 1].tolist() == [1.0] * 6  # nothing allowed is left: the shortest text of the space
    assert mute.clipped.all()
    assert not play(Plan(2), Plain, policy=Sampler("ABC")).clipped.any()


def test_an_agent_that_is_not_asked_is_neither_sampled_nor_trained():
    class Turns(Plain):
        def infos(self):
            asked = len(self.log) % 2
            return {a: {"acts": int(i == asked)} for i, a in enumerate(self.possible_agents)}

        def reset(self, seed=None, options=None):
            return super().reset(seed, options)[0], self.infos()

        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, self.infos()

    policy = Sampler("AB")
    batch = play(Plan(3), Turns, policy=policy)
    assert [{r.agent for r in call} for call in policy.calls] == [{"left"}, {"right"}]
    assert batch.acted.tolist() == [[True, False]] * 3 + [[False, True]] * 9
    assert (batch.step_response[:3, 1] == -1).all() and (batch.step_response[3:, 0] == -1).all()
    # "right" waited: its prompt holds both observations in one message.
    (request, *_) = policy.calls[1]
    assert len(request.messages) == 1
    assert request.messages[0]["content"].count("\n\n") == 1
    assert batch.weight[batch.response_agent == 1] == pytest.approx(1 / 9)


def test_other_spaces_are_refused():
    class Numbers(Plain):
        def action_space(self, agent):
            return Discrete(3)

    with pytest.raises(ConfigError, match=r"action_space\('left'\) is Discrete"):
        play(Plan(2), Numbers)


def test_concurrent_scores_give_the_same_batch():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as executor:
        threaded = play(Plan(4), executor=executor)
    plain = play(Plan(4))
    assert threaded.rewards.tolist() == plain.rewards.tolist()
    assert [r.text for r in threaded.responses] == [r.text for r in plain.responses]


class Leaving(Plain):
    """ "left" leaves after the first turn; both are paid 2 while they are there."""

    def step(self, actions):
        before = list(self.agents)
        seen, _, ended, cut, infos = super().step({"left": "", "right": "", **actions})
        if self.agents:
            self.agents = ["right"]
            ended = {"left": True, "right": False}
        keep = lambda values: {a: values[a] for a in before}  # noqa: E731
        return keep(seen | {"left": "bye"}), dict.fromkeys(before, 2.0), keep(ended), keep(cut), keep(infos)

    def over(self, actions):
        return False


def test_an_agent_that_leaves_early_counts_while_it_is_there():
    batch = play(Plan(2), Leaving, policy=Sampler("AB"))
    assert batch.present.tolist() == [[True, True]] * 2 + [[False, True]] * 4
    assert batch.rewards.tolist() == [[2.0, 2.0]] * 2 + [[0.0, 2.0]] * 4
    assert batch.scores.tolist() == [2.0] * 6
    assert (batch.step_response[2:, 0] == -1).all()
    assert MAGRPO().advantages(batch).tolist() == [0.0] * len(batch.responses)  # joint: all returns are equal


def test_truncation_is_not_termination():
    class Cut(Plain):
        def step(self, actions):
            seen, paid, ended, _, infos = super().step(actions)
            over = any(ended.values())
            return seen, paid, dict.fromkeys(ended, False), dict.fromkeys(ended, over), infos

    batch = play(Plan(2), Cut, policy=Sampler("AB"))
    assert not batch.terminated.any()
    assert batch.truncated.tolist() == [False] * 2 + [True] * 4


def test_one_agent_is_a_team_too():
    one = lambda: make("probe/own-word-v0", num_agents=1)  # noqa: E731
    batch = play(Plan(4), one)
    assert batch.rewards.shape == (4, 1)
    assert batch.weight.tolist() == [0.25] * 4


def test_rows_with_different_prompts_are_asked_apart():
    policy = Sampler("AB")
    play(Plan(2), Plain, starts=3, policy=policy)
    asked = [(r.agent, r.messages[0]["content"], r.num_samples) for r in policy.calls[0]]
    assert sorted(asked) == sorted((a, f"start {i}", 2) for i in range(3) for a in ("left", "right"))


def test_chains_part_even_where_nobody_is_asked_at_first():
    class Late(Plain):
        def reset(self, seed=None, options=None):
            return super().reset(seed, options)[0], {a: {"acts": 0} for a in self.possible_agents}

    batch = play(Plan(3, shape="chains"), Late, policy=Sampler("AB"))
    assert len(batch.rewards) == 6
    assert batch.acted.tolist() == [[False, False]] * 3 + [[True, True]] * 3
    assert play(Plan(3), Late, policy=Sampler("AB")).acted.sum() == 6  # a tree: one idle step, then three joint actions


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_an_error_of_the_environment(bad):
    class Broken(Plain):
        def step(self, actions):
            seen, paid, *rest = super().step(actions)
            return seen, paid | {"right": bad}, *rest

    with pytest.raises(NonFiniteError, match="plain, start .*seed=0.*turn 1: the reward of agent 'right'"):
        play(Plan(2), Broken, policy=Sampler("AB"))


def test_an_environment_that_keeps_ended_agents_is_refused():
    class Keeps(Plain):
        def step(self, actions):
            result = super().step(actions)
            self.agents = list(self.possible_agents)
            return result

    with pytest.raises(EpisodeError, match=r"\['left', 'right'\] have ended and are still in env.agents"):
        play(Plan(2), Keeps, policy=Sampler("AB"))


def test_an_environment_without_a_horizon_is_refused():
    class Endless(Plain):
        def step(self, actions):
            self.log = []
            return super().step(actions)

    with pytest.raises(EpisodeError, match="has not ended after 20 turns"):
        play(Plan(2, shape="chains", max_turns=20), Endless, policy=Sampler("AB"))


def test_a_policy_that_returns_too_few_responses_is_refused():
    class Lazy(Sampler):
        def generate(self, requests, *, seed, greedy=False):
            return [[Response("A")] for _ in requests]

    with pytest.raises(EpisodeError, match=r"Lazy.generate returned \[1, 1\] responses, and \[3, 3\] were asked for"):
        play(Plan(3), policy=Lazy())


def test_environments_are_closed_when_their_episode_ends():
    closed = []

    class Closing(Plain):
        def close(self):
            closed.append(self)

    play(Plan(3), Closing, policy=Sampler("AB"))
    assert len(closed) == len(set(map(id, closed))) == 9

"""Estimators worked by hand: plans, weights, baselines, groups, TD errors, Q targets; and where two of them coincide."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabular import AGENTS, Rules, Tabular, played

from llm_marl_baselines.advantages import (
    group_advantages,
    leave_one_out,
    response_returns,
    step_returns,
    td_advantages,
)
from llm_marl_baselines.algorithms import ALGORITHMS
from llm_marl_baselines.algorithms.critic_based import CriticConfig
from llm_marl_baselines.algorithms.group_relative import GroupConfig, advantages_of, group_stats, groups
from llm_marl_baselines.algorithms.iac import IAC
from llm_marl_baselines.algorithms.igrpo import IGRPO
from llm_marl_baselines.algorithms.maac import MAAC
from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.plan import JointAction, Plan
from llm_marl_baselines.settings import parse
from llm_marl_envs.errors import ConfigError

ONE, TWO = Rules(turns=1), Rules()
HELD = {"left": 2, "right": 2}


def group(plan, rules=ONE, rewards=None, starts=1, seed=0):
    """A batch of random answers; ``rewards``: (K,) joint, or (K, 2), instead of the game's."""
    rng = np.random.default_rng(seed)
    batch, _ = played(plan, rules, [tuple(rng.integers(0, 2, 200)) for _ in range(starts)])
    if rewards is None:
        rewards = rng.normal(size=len(batch.rewards))
    rewards = np.array(rewards, dtype=float)
    return dataclasses.replace(batch, rewards=np.repeat(rewards[:, None], 2, axis=1) if rewards.ndim == 1 else rewards)


def of(batch, agent, values):
    """The values of the agent's responses that are learned from, in order."""
    return np.asarray(values)[batch.of_agent(agent)].tolist()


def magrpo(**settings):
    return MAGRPO(MAGRPO.Config(**settings))


def igrpo(**settings):
    return IGRPO(IGRPO.Config(**settings))


# -- plans -----------------------------------------------------------------------------------------------------------


def test_a_held_plan_lets_one_agent_at_a_time_answer_anew():
    actions = Plan(2, pairing="held").joint_actions(AGENTS, 0)
    assert [a.chosen for a in actions] == [
        HELD | {"left": 0},
        HELD | {"left": 1},
        HELD | {"right": 0},
        HELD | {"right": 1},
    ]
    assert {a.share for a in actions} == {1 / 4} and not any(a.greedy for a in actions)


@pytest.mark.parametrize(
    ("plan", "acting", "turn", "wanted"),
    [
        (Plan(2, greedy=True), 2, 0, ((0, 0, 1 / 2), (1, 1, 1 / 2), (2, 2, 0))),
        (Plan(2, "chains", greedy=True), 2, 3, ((0, 0, 1), (1, 1, 0))),
        (Plan(1, pairing="held", greedy=True), 2, 0, ((0, 1, 1 / 2), (1, 0, 1 / 2), (2, 2, 0))),
        (Plan(3, pairing="held"), 1, 1, ((0, 1 / 3), (1, 1 / 3), (2, 1 / 3))),  # one agent: nobody to hold
        (Plan(2, pairing="cross", greedy=True), 1, 0, ((0, 1 / 2), (1, 1 / 2), (2, 0))),
        (Plan(4, pairing="held", greedy=True), 0, 1, ((1.0,),)),  # nobody is asked: one step, and nothing greedy
    ],
)
def test_joint_actions(plan, acting, turn, wanted):
    agents = AGENTS[:acting]
    found = plan.joint_actions(agents, turn)
    assert [(*a.chosen.values(), a.share) for a in found] == [pytest.approx(w) for w in wanted]
    assert [a.greedy for a in found] == [w[-1] == 0 for w in wanted]
    assert plan.branches(acting, turn) == sum(a.share > 0 for a in found)
    # As many responses are sampled as the joint actions name, and the last ones are baselines.
    named = {g for a in found if not a.greedy for g in a.chosen.values()}
    if acting:
        assert named == set(range(plan.samples(acting, turn)))
        assert plan.baselines(acting, turn) == plan.samples(acting, turn) + plan.greedy - (
            1 if turn == 3 else plan.group_size
        )


@given(
    st.integers(1, 4),
    st.sampled_from(["aligned", "cross", "held", "chains"]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_shares_add_up_to_one_and_every_answer_is_used(size, how, greedy, acting, turn):
    chains = how == "chains"
    plan = Plan(size, "chains" if chains else "tree", "aligned" if chains else how, greedy=greedy)
    agents = tuple("abc"[:acting])
    actions = plan.joint_actions(agents, turn)
    if not chains or turn == 0:
        assert sum(a.share for a in actions) == pytest.approx(1)
    for agent in agents:
        own = {a.chosen[agent] for a in actions}
        assert own == set(range(plan.samples(acting, turn) + greedy))
    assert sum(isinstance(a, JointAction) and a.greedy for a in actions) == greedy


@pytest.mark.parametrize("plan", [Plan(2), Plan(2, "chains"), Plan(2, pairing="cross"), Plan(2, pairing="held"), Plan(2, greedy=True), Plan(3, "chains", greedy=True), Plan(2, pairing="held", greedy=True)])  # fmt: skip
def test_weights_of_a_rollout(plan):
    batch = group(plan, TWO, starts=2)
    assert len(batch.rewards) == plan.count(2, 2, 2)
    for turn in (0, 1):
        for root in (0, 1):
            nodes = (batch.turn == turn) & (batch.root == root)
            assert batch.node_weight[nodes].sum() == pytest.approx(1)
            for column in (0, 1):
                mine = nodes[batch.response_node] & (batch.response_agent == column)
                assert batch.weight[mine].sum() == pytest.approx(1)
    shares = np.bincount(batch.step_node, batch.step_share)
    first = batch.turn == 0 if plan.shape == "tree" else np.zeros(len(batch.turn), dtype=bool)
    assert shares[first | (batch.turn == 1)] == pytest.approx(1)
    # Below a greedy step everything is greedy and nothing weighs.
    below = np.isin(batch.parent_step, np.flatnonzero(batch.greedy))
    assert (batch.node_weight[below] == 0).all() and (batch.node_weight[~below] > 0).all()
    assert batch.greedy[below[batch.step_node]].all()
    assert not batch.trained[below[batch.response_node]].any()
    # A response that nothing is learned from is held or greedy; the trained ones are G of each agent at a node.
    own = np.bincount(batch.response_node[batch.trained], minlength=len(batch.turn))
    size = plan.group_size
    assert set(own[batch.turn == 0]) == {2 * size}
    assert set(own[(batch.turn == 1) & ~below]) == {2 if plan.shape == "chains" else 2 * size}


def test_a_held_rollout_by_hand():
    batch, _ = played(Plan(2, pairing="held"), ONE, [(0, 1, 0, 1, 0, 1)])
    assert [r.text for r in batch.responses] == list("010101")  # two of its own, and the one that is held
    assert batch.step_response.tolist() == [[0, 5], [1, 5], [2, 3], [2, 4]]
    assert [tuple(a.values()) for a in batch.actions] == [("0", "1"), ("1", "1"), ("0", "1"), ("0", "0")]
    assert batch.weight.tolist() == [0.5, 0.5, 0, 0.5, 0.5, 0]
    assert batch.step_share.tolist() == [1 / 4] * 4


def test_a_greedy_rollout_by_hand():
    batch, policy = played(Plan(2, greedy=True), TWO, [(0,) * 12])
    best = {a: str(int(p[0].argmax())) for a, p in policy.probabilities().items()}
    # At the root: two sampled joint actions and the greedy one; below them 3 + 3 + 1.
    assert batch.greedy.tolist() == [False, False, True, False, False, True, False, False, True, True]
    assert batch.step_share.tolist() == [0.5, 0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0, 1]
    assert batch.node_weight.tolist() == [1, 0.5, 0.5, 0]
    assert batch.actions[2] == best
    assert [r.raw_text for r in batch.responses].count("greedy") == 2 * 4
    # The return of the greedy joint response is that of what follows it greedily.
    rewards = np.array([1.0, 2, 4, 10, 20, 99, 30, 50, 99, 8])
    returns = step_returns(rewards, batch.parent, 1.0, batch.step_share)
    assert returns.tolist() == [1 + 15, 2 + 40, 4 + 8, 10, 20, 99, 30, 50, 99, 8]
    batch = dataclasses.replace(batch, rewards=np.repeat(rewards[:, None], 2, axis=1))
    found = magrpo(group_size=2, baseline="greedy").advantages(batch)
    for agent in AGENTS:
        assert of(batch, agent, found) == [16 - 12, 42 - 12, 10 - 99, 20 - 99, 30 - 99, 50 - 99]
    assert found[~batch.trained].tolist() == [0.0] * 8


# -- baselines -------------------------------------------------------------------------------------------------------

RETURNS = np.array([1.0, 3.0, 8.0, 5.0, 5.0, 7.0])
GROUP = np.array([4, 4, 4, 9, 9, 2])  # of 3, 2 and 1


@pytest.mark.parametrize(
    ("baseline", "wanted"),
    [
        ("mean", [-3, -1, 4, 0, 0, 0]),
        ("loo", [1 - 11 / 2, 3 - 9 / 2, 8 - 4 / 2, 0, 0, 7]),
        ("max", [-7, -5, 0, 0, 0, 0]),
        ("none", [1, 3, 8, 5, 5, 7]),
        (np.array([1.0, 1, 1, 5, 6, 0]), [0, 2, 7, 0, -1, 7]),
    ],
)
def test_every_baseline_by_hand(baseline, wanted):
    assert group_advantages(RETURNS, GROUP, baseline=baseline) == pytest.approx(np.array(wanted, dtype=float))


@pytest.mark.parametrize("baseline", ["mean", "loo", "max"])
def test_standardised_by_hand(baseline):
    """Divided by the group's own standard deviation (population) plus eps; nothing is centred again."""
    std = np.sqrt((9 + 1 + 16) / 3)
    plain = group_advantages(RETURNS, GROUP, baseline=baseline)
    found = group_advantages(RETURNS, GROUP, baseline=baseline, standardize=True, eps=0.5)
    assert found[:3] == pytest.approx(plain[:3] / (std + 0.5))
    assert found[3:5].tolist() == [0, 0]
    assert found[5] == 0  # one response has no spread to be measured with


returns = st.lists(st.floats(-100, 100), min_size=2, max_size=12)
baselines = st.sampled_from(["mean", "loo", "max"])


@given(returns, baselines, st.floats(-50, 50), st.booleans())
def test_a_shift_of_a_group_changes_nothing(values, baseline, shift, standardize):
    values, index = np.array(values), np.arange(len(values)) % 2
    if len(values) < 4:
        index[:] = 0
    how = functools.partial(group_advantages, group=index, baseline=baseline, standardize=standardize, eps=1.0)
    assert how(values) == pytest.approx(how(values + shift * (index + 1)), abs=1e-9)


@given(returns, baselines, st.floats(0.01, 100))
def test_a_change_of_units(values, baseline, factor):
    values, index = np.array(values), np.zeros(len(values))
    plain = group_advantages(values, index, baseline=baseline)
    assert group_advantages(factor * values, index, baseline=baseline) == pytest.approx(factor * plain, abs=1e-7)
    standard = functools.partial(group_advantages, group=index, baseline=baseline, standardize=True)
    assert standard(factor * values, eps=factor) == pytest.approx(standard(values, eps=1.0), abs=1e-7)


@given(returns, st.randoms(use_true_random=False), baselines, st.booleans())
def test_order_and_names_of_groups_do_not_matter(values, random, baseline, standardize):
    values = np.array(values)
    index = np.array([random.randrange(3) for _ in values])
    order = np.array(random.sample(range(len(values)), len(values)))
    how = functools.partial(group_advantages, baseline=baseline, standardize=standardize, eps=0.1)
    assert how(values[order], 7 - index[order]) == pytest.approx(how(values, index)[order], abs=1e-9)


@given(returns, returns)
def test_a_group_knows_nothing_of_another(values, others):
    alone = group_advantages(np.array(values), np.zeros(len(values)), standardize=True)
    both = group_advantages(
        np.array(values + others), np.array([0] * len(values) + [1] * len(others)), standardize=True
    )
    assert both[: len(values)] == pytest.approx(alone)


@given(returns)
def test_leave_one_out_is_what_it_says(values):
    wanted = [x - np.mean(values[:i] + values[i + 1 :]) for i, x in enumerate(values)]
    index = np.zeros(len(values))
    assert group_advantages(np.array(values), index, baseline="loo") == pytest.approx(wanted, abs=1e-9)
    assert leave_one_out(np.array(values), index) == pytest.approx(wanted, abs=1e-9)


def test_leave_one_out_of_a_group_of_one():
    """A return without others stays, unbiased; a Q value without others says nothing of its action."""
    assert group_advantages(np.array([3.0]), np.zeros(1), baseline="loo").tolist() == [3.0]
    assert leave_one_out(np.array([3.0, 1.0, 5.0]), np.array([0, 1, 1])).tolist() == [0.0, -4.0, 4.0]


@pytest.mark.parametrize("agents", [2, 3])
def test_leave_one_out_in_cross_drops_every_joint_action_with_the_response(agents):
    size = 3
    rng = np.random.default_rng(agents)
    steps = np.array(list(np.ndindex(*[size] * agents))) + size * np.arange(agents)
    values = rng.normal(size=len(steps))
    found = group_advantages(
        response_returns(np.repeat(values[:, None], agents, axis=1), steps, size * agents),
        np.arange(size * agents) // size,
        baseline="loo",
    )
    for b in range(size * agents):
        holds = (steps == b).any(axis=1)
        assert found[b] == pytest.approx(values[holds].mean() - values[~holds].mean())


# -- groups ----------------------------------------------------------------------------------------------------------


def test_groups_by_hand():
    """Chains, G = 2, two turns, one start: R of turn 1 and of turn 2, by chain."""
    batch = group(Plan(2, "chains"), TWO, rewards=[1.0, 2.0, 10.0, 30.0])
    values = {  # by turn and chain
        "agent_turn": [(11, 32), (10, 30)],
        "turn": [(11, 11, 32, 32), (10, 10, 30, 30)],
        "agent": [(11, 32, 10, 30)],
        "root": [(11, 11, 32, 32, 10, 10, 30, 30)],
    }
    for by, groups_of_returns in values.items():
        number = len(np.unique(groups(batch, by)))
        assert number == len(groups_of_returns) * (2 if by in ("agent_turn", "agent") else 1)
        found = magrpo(group_size=2, shape="chains", group_by=by, standardize=True, std_eps=0.5).advantages(batch)
        first = next(g for g in groups_of_returns if 11 in g)
        later = next(g for g in groups_of_returns if 10 in g)
        wanted = [(x - np.mean(g)) / (np.std(g) + 0.5) for x, g in ((11, first), (32, first), (10, later), (30, later))]
        for agent in AGENTS:
            assert of(batch, agent, found) == pytest.approx(wanted)


def test_groups_of_a_tree_are_its_nodes():
    batch = group(Plan(2), TWO, starts=2)
    for agent in AGENTS:
        mine = batch.of_agent(agent)
        nodes = batch.response_node[mine]
        assert (np.equal.outer(groups(batch)[mine], groups(batch)[mine]) == np.equal.outer(nodes, nodes)).all()
        roots = batch.root[nodes]
        found = groups(batch, "agent")[mine]
        assert (np.equal.outer(found, found) == np.equal.outer(roots, roots)).all()
    assert not set(groups(batch)[batch.of_agent("left")]) & set(groups(batch)[batch.of_agent("right")])


def test_diagnostics_by_hand():
    batch = group(Plan(2), ONE, starts=2, rewards=[[1, 0], [3, 0], [5, 2], [5, 2]])
    algorithm = igrpo(group_size=2, standardize=False)
    advantages = algorithm.advantages(batch)
    stats = group_stats(batch, algorithm.returns(batch), advantages, "agent_turn")
    # Groups: left (1, 3) and (5, 5); right (0, 0) and (2, 2).
    assert stats == {
        "advantage_std": pytest.approx(np.std([-1, 1, 0, 0, 0, 0, 0, 0])),
        "zero_groups": 3 / 4,
        "left/credit_variance": 0.5,
        "right/credit_variance": 0.0,
    }


# -- credit ----------------------------------------------------------------------------------------------------------


def test_fixed_teammates_see_what_sampled_ones_hide():
    """Reward 1 if both answer the same. left answers 0, 1 and right 1, 0: aligned, both joint actions fail, and nobody
    learns anything. Held answers 0 and 0: left hears that 0 is better than 1, right the same of its own."""
    same = lambda batch: [float(a["left"] == a["right"]) for a in batch.actions]  # noqa: E731
    aligned, _ = played(Plan(2), ONE, [(0, 1, 1, 0)])
    held, _ = played(Plan(2, pairing="held"), ONE, [(0, 1, 0, 1, 0, 0)])
    aligned, held = (
        dataclasses.replace(b, rewards=np.repeat(np.array(same(b))[:, None], 2, axis=1)) for b in (aligned, held)
    )
    assert magrpo(group_size=2).advantages(aligned).tolist() == [0.0] * 4
    fixed = igrpo(group_size=2, teammates="fixed", standardize=False)
    assert fixed.plan == Plan(2, pairing="held")
    found = fixed.advantages(held)
    assert of(held, "left", found) == [0.5, -0.5]
    assert of(held, "right", found) == [-0.5, 0.5]
    counterfactual = magrpo(group_size=2, credit="counterfactual", baseline="loo").advantages(held)
    assert of(held, "left", counterfactual) == [1, -1]  # the mean of the agent's OTHER answers as baseline


def test_fixed_teammates_take_the_others_noise_away():
    """Reward: left's part (0 or 1) plus right's (0 or 100). Aligned, left's answer 1 comes with right's 0."""
    pay = lambda batch: [float(a["left"]) + 100 * float(a["right"]) for a in batch.actions]  # noqa: E731
    aligned, _ = played(Plan(2), ONE, [(0, 1, 1, 0)])
    held, _ = played(Plan(2, pairing="held"), ONE, [(0, 1, 0, 1, 0, 1)])
    aligned, held = (
        dataclasses.replace(b, rewards=np.repeat(np.array(pay(b))[:, None], 2, axis=1)) for b in (aligned, held)
    )
    # Joint returns 100 and 1: left's worse answer is praised with its teammate's luck.
    assert of(aligned, "left", magrpo(group_size=2).advantages(aligned)) == [49.5, -49.5]
    fixed = igrpo(group_size=2, teammates="fixed", standardize=False)
    found = fixed.advantages(held)
    assert of(held, "left", found) == [-0.5, 0.5]
    assert of(held, "right", found) == [50, -50]
    stats = group_stats(held, fixed.returns(held), found, "agent_turn")
    assert (stats["left/credit_variance"], stats["right/credit_variance"]) == (0.25, 2500)


def test_own_rewards_and_joint_rewards():
    batch = group(Plan(2), ONE, rewards=[[1, 5], [3, 1]])
    found = igrpo(group_size=2, standardize=False).advantages(batch)
    assert of(batch, "left", found) == [-1, 1] and of(batch, "right", found) == [2, -2]
    with pytest.raises(ConfigError, match="joint_reward"):
        magrpo(group_size=2).advantages(batch)
    assert of(batch, "right", magrpo(group_size=2, joint_reward="sum").advantages(batch)) == [1, -1]
    assert of(batch, "left", magrpo(group_size=2, joint_reward="mean").advantages(batch)) == [0.5, -0.5]


# -- coincidences ----------------------------------------------------------------------------------------------------


def preset(name, *args):
    settings = parse(name, ["--env", "probe/own-word-v0", "--model", "tiny", "--algorithm.group_size", "3", *args])
    return ALGORITHMS.resolve(name)(settings.algorithm)


def same(one, two, factor=1.0, rules=TWO):
    """Both estimators play the same joint actions, and give the same advantages, up to the factor."""
    assert one.plan == two.plan
    batch = group(one.plan, rules, starts=2)
    found, wanted = one.advantages(batch), factor * two.advantages(batch)
    assert np.abs(wanted[batch.trained]).min() > 0
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("extra", [(), ("--algorithm.pairing", "cross"), ("--algorithm.shape", "chains")])
def test_mean_and_leave_one_out_differ_by_a_factor(extra):
    same(preset("marloo", *extra), preset("magrpo", *extra), 3 / 2)


def test_igrpo_with_sampled_teammates_is_standardised_magrpo_under_a_joint_reward():
    same(preset("igrpo"), preset("magrpo", "--algorithm.standardize", "true"))


def test_atgrpo_is_standardised_magrpo_in_a_tree():
    """Its groups, one agent at one node, are the tree's."""
    same(preset("atgrpo"), preset("magrpo", "--algorithm.standardize", "true"))
    same(preset("atgrpo"), preset("igrpo"))


def test_drmas_under_a_joint_reward_is_one_group_for_all_agents():
    """All agents have the same returns then, so standardising per agent or over all is the same."""
    same(preset("drmas"), preset("drmas", "--algorithm.group_by", "root"))
    batch = group(preset("drmas").plan, TWO, rewards=np.random.default_rng(0).normal(size=(6, 2)))
    one, two = (
        advantages_of(batch, batch.rewards, GroupConfig(group_size=3, shape="chains", group_by=by, standardize=True))
        for by in ("agent", "root")
    )
    assert np.abs(one - two).max() > 0.1  # with rewards of their own it is not


def test_in_one_turn_drmas_and_atgrpo_coincide():
    same(preset("drmas"), preset("atgrpo", "--algorithm.shape", "chains"), rules=ONE)
    batch = group(Plan(3), ONE, starts=2)
    chains = group(Plan(3, "chains"), ONE, starts=2)
    assert batch.step_response.tolist() == chains.step_response.tolist()
    assert preset("drmas").advantages(chains) == pytest.approx(preset("atgrpo").advantages(batch))


def test_counterfactual_credit_is_igrpos_fixed_teammates_under_a_joint_reward():
    fixed = preset("igrpo", "--algorithm.teammates", "fixed", "--algorithm.standardize", "false")
    loo = preset("igrpo", "--algorithm.teammates=fixed", "--algorithm.standardize=false", "--algorithm.baseline=loo")
    same(preset("counterfactual"), loo)
    same(preset("counterfactual"), fixed, 3 / 2)


def test_a_critic_that_says_nothing_makes_maac_reinforce():
    found = passed_on(MAAC, lambda name, shown: 0.0, lam=1.0, gamma=0.9)
    batch = group(Plan(3), TWO, starts=2)
    assert found(batch) == pytest.approx(preset("mareinforce", "--algorithm.gamma", "0.9").advantages(batch))


def test_a_critic_of_the_groups_mean_makes_maac_magrpo():
    batch, _ = played(Plan(3), TWO, [(0, 1, 0, 1, 0, 0)])  # three branches with different histories
    returns = step_returns(batch.rewards[:, 0], batch.parent, 1.0, batch.step_share)
    mean = np.bincount(batch.step_node, returns) / np.bincount(batch.step_node)
    shown = {said_at(batch, node): mean[node] for node in range(len(mean))}
    assert len(shown) == len(mean) == 4
    found = passed_on(MAAC, lambda name, said: shown[said], lam=1.0)
    assert found(batch) == pytest.approx(magrpo(group_size=3).advantages(batch))


def said_at(batch, node):
    step = batch.parent_step[node]
    return () if step < 0 else tuple(batch.actions[step].values())


def test_q_of_the_returns_makes_maac_marloo():
    batch, _ = played(Plan(4), ONE, [(0, 0, 1, 1, 0, 1, 0, 1)])  # all four joint actions
    table = {tuple(a.values()): float(r) for a, r in zip(batch.actions, batch.rewards[:, 0], strict=True)}
    found = passed_on(MAAC, lambda name, said: table[said], critic_of="q", group_size=4)
    assert found(batch) == pytest.approx(magrpo(group_size=4, baseline="loo").advantages(batch))


def test_critics_that_agree_make_iac_maac():
    for lam in (0.0, 0.5):
        central = passed_on(MAAC, lambda name, said: float(len(said) > 0), lam=lam)
        own = passed_on(IAC, lambda name, shown: float(shown[1] > 0), lam=lam)
        batch = group(Plan(3), TWO, starts=2)
        assert central(batch) == pytest.approx(own(batch))


def passed_on(kind, critic, **settings):
    """batch -> (B,) the advantages that the algorithm's update gives to the actors."""

    def advantages(batch):
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "llm_marl_baselines.algorithms.critic_based.policy_updates",
                lambda policy, batch, advantages, config, stats: iter([seen.append(advantages) or {}]),
            )
            algorithm = kind(kind.Config(**{"group_size": 3, **settings}))
            next(iter(algorithm.update(batch, Tabular(critic=critic))))
        return seen[0]

    return advantages


# -- TD errors -------------------------------------------------------------------------------------------------------

#            0 ── step 0 ── 1 ── steps 2, 3
#  steps 0, 1└─── step 1 ── 2 ── steps 4, 5
TREE = {
    "rewards": np.array([1.0, 2, 10, 20, 30, 50]),
    "values": np.array([5.0, 12, 30]),
    "acts": np.ones(3, dtype=bool),
    "step_node": np.array([0, 0, 1, 1, 2, 2]),
    "next_node": np.array([1, 2, -1, -1, -1, -1]),
    "share": np.full(6, 0.5),
}


@pytest.mark.parametrize(
    ("gamma", "lam", "wanted"),
    [
        (1.0, 0.0, [1 + 12 - 5, 2 + 30 - 5, -2, 8, 0, 20]),
        (0.5, 0.0, [1 + 6 - 5, 2 + 15 - 5, -2, 8, 0, 20]),
        (1.0, 1.0, [1 + 15 - 5, 2 + 40 - 5, -2, 8, 0, 20]),  # the return minus V
        (0.5, 1.0, [1 + 7.5 - 5, 2 + 20 - 5, -2, 8, 0, 20]),
        (1.0, 0.5, [8 + 0.5 * 3, 27 + 0.5 * 10, -2, 8, 0, 20]),
        (0.5, 0.5, [2 + 0.25 * 3, 12 + 0.25 * 10, -2, 8, 0, 20]),
    ],
)
def test_advantages_on_a_tree(gamma, lam, wanted):
    assert td_advantages(**TREE, gamma=gamma, lam=lam).tolist() == pytest.approx(wanted)


CHAIN = {
    "rewards": np.array([1.0, 2, 4, 8]),
    "values": np.array([10.0, 777, 20, 40]),
    "step_node": np.arange(4),
    "next_node": np.array([1, 2, 3, -1]),
    "share": np.ones(4),
}


@pytest.mark.parametrize(
    ("lam", "acts", "wanted"),
    [
        # gamma = 1/2. All act: delta = 1 + 388.5 - 10, 2 + 10 - 777, 4 + 20 - 20, 8 - 40.
        (0.0, [1, 1, 1, 1], [379.5, -765, 4, -32]),
        # Not asked at node 1: delta = 1 + 2/2 + 20/4 - 10.
        (0.0, [1, 0, 1, 1], [-3, 0, 4, -32]),
        (1.0, [1, 0, 1, 1], [1 + 1 + 1 + 1 - 10, 0, 4 + 4 - 20, 8 - 40]),
        # lambda counts once for a decision, gamma for every step: -3 + (1/4)(1/2)(4 + (1/2)(1/2)(-32)).
        (0.5, [1, 0, 1, 1], [-3 + (4 - 8) / 8, 0, 4 - 8, -32]),
        # Asked at the beginning only: all rewards are its.
        (0.0, [1, 0, 0, 0], [1 + 1 + 1 + 1 - 10, 0, 0, 0]),
        (0.5, [1, 0, 0, 0], [1 + 1 + 1 + 1 - 10, 0, 0, 0]),
        # Never asked at first: what came before is not its doing.
        (0.0, [0, 0, 1, 0], [0, 0, 4 + 4 - 20, 0]),
        (1.0, [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_advantages_where_an_agent_is_not_always_asked(lam, acts, wanted):
    found = td_advantages(**CHAIN, acts=np.array(acts, dtype=bool), gamma=0.5, lam=lam)
    assert found.tolist() == pytest.approx(wanted)


def random_tree(seed, idle=0.3):
    rng = np.random.default_rng(seed)
    step_node, next_node, share = [], [], []
    nodes, level = 1, [0]
    for depth in range(int(rng.integers(1, 5))):
        following = []
        for node in level:
            number = int(rng.integers(1, 4))
            part = rng.dirichlet(np.ones(number))
            for p in part:
                goes_on = rng.random() < 0.6 and depth < 3
                step_node.append(node)
                share.append(p)
                next_node.append(nodes if goes_on else -1)
                if goes_on:
                    following.append(nodes)
                    nodes += 1
        level = following
        if not level:
            break
    open_ends = [n for n in range(nodes) if n not in step_node]
    for node in open_ends:
        step_node.append(node)
        share.append(1.0)
        next_node.append(-1)
    return {
        "rewards": rng.normal(size=len(step_node)),
        "values": rng.normal(size=nodes),
        "acts": rng.random(nodes) >= idle,
        "step_node": np.array(step_node),
        "next_node": np.array(next_node),
        "share": np.array(share),
    }


def along_every_path(tree, k, gamma, lam):
    """GAE's own formula, sum over l of (gamma lambda)^l delta_(t+l), on every path from step k to an end, averaged. An
    agent's decisions are the steps of nodes where it is asked; between two of them rewards add up, discounted."""

    def paths(step, chance):
        node = tree["next_node"][step]
        if node < 0:
            yield chance, [step]
            return
        for then in np.flatnonzero(tree["step_node"] == node):
            for total, path in paths(then, chance * tree["share"][then]):
                yield total, [step, *path]

    total = 0.0
    for chance, path in paths(k, 1.0):
        asked = [i for i, step in enumerate(path) if tree["acts"][tree["step_node"][step]]]
        advantage = 0.0
        for number, i in enumerate(asked):
            then = asked[number + 1] if number + 1 < len(asked) else None
            end = len(path) if then is None else then
            delta = sum(gamma ** (j - i) * tree["rewards"][path[j]] for j in range(i, end))
            if then is not None:
                delta += gamma ** (then - i) * tree["values"][tree["step_node"][path[then]]]
            delta -= tree["values"][tree["step_node"][path[i]]]
            advantage += gamma**i * lam**number * delta
        total += chance * advantage
    return total


unit = st.sampled_from([0.0, 0.3, 0.9, 1.0])


@given(st.integers(0, 2**32 - 1), unit, unit)
def test_gae_is_the_mean_over_paths_of_its_formula(seed, gamma, lam):
    tree = random_tree(seed)
    found = td_advantages(**tree, gamma=gamma, lam=lam)
    for k in range(len(found)):
        asked = tree["acts"][tree["step_node"][k]]
        wanted = along_every_path(tree, k, gamma, lam) if asked else 0.0
        assert found[k] == pytest.approx(wanted, abs=1e-9)


def parents(tree):
    before = np.full(len(tree["values"]), -1)
    inner = tree["next_node"] >= 0
    before[tree["next_node"][inner]] = np.flatnonzero(inner)
    return before[tree["step_node"]]


@given(st.integers(0, 2**32 - 1), unit)
def test_lambda_one_is_the_return_minus_the_value(seed, gamma):
    """Whether or not the agent is asked further down."""
    tree = random_tree(seed)
    returns = step_returns(tree["rewards"], parents(tree), gamma, tree["share"])
    asked = tree["acts"][tree["step_node"]]
    wanted = np.where(asked, returns - tree["values"][tree["step_node"]], 0.0)
    assert td_advantages(**tree, gamma=gamma, lam=1.0) == pytest.approx(wanted, abs=1e-9)


@given(st.integers(0, 2**32 - 1), unit)
def test_lambda_zero_is_the_td_error(seed, gamma):
    tree = random_tree(seed, idle=0.0)
    then = np.where(tree["next_node"] >= 0, tree["values"][tree["next_node"]], 0.0)
    wanted = tree["rewards"] + gamma * then - tree["values"][tree["step_node"]]
    assert td_advantages(**tree, gamma=gamma, lam=0.0) == pytest.approx(wanted, abs=1e-9)


@given(st.integers(0, 2**32 - 1), unit, unit)
def test_gae_is_linear_and_at_the_true_values_its_mean_is_zero(seed, gamma, lam):
    tree = random_tree(seed)
    doubled = td_advantages(
        **{**tree, "rewards": 2 * tree["rewards"], "values": 2 * tree["values"]}, gamma=gamma, lam=lam
    )
    assert doubled == pytest.approx(2 * td_advantages(**tree, gamma=gamma, lam=lam), abs=1e-9)
    returns = step_returns(tree["rewards"], parents(tree), gamma, tree["share"])
    true = np.bincount(tree["step_node"], tree["share"] * returns)
    found = td_advantages(**{**tree, "values": true}, gamma=gamma, lam=lam)
    assert np.bincount(tree["step_node"], tree["share"] * found) == pytest.approx(np.zeros(len(true)), abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_values_of_nodes_where_the_agent_is_not_asked_are_not_read(seed):
    tree = random_tree(seed)
    before = td_advantages(**tree, gamma=0.9, lam=0.5)
    spoilt = np.where(tree["acts"], tree["values"], np.nan)
    assert td_advantages(**{**tree, "values": spoilt}, gamma=0.9, lam=0.5).tolist() == before.tolist()


@given(st.integers(0, 2**32 - 1), unit)
def test_returns_are_linear_in_rewards(seed, gamma):
    tree = random_tree(seed)
    other = np.random.default_rng(seed + 1).normal(size=len(tree["rewards"]))
    how = lambda r: step_returns(r, parents(tree), gamma, tree["share"])  # noqa: E731
    assert how(tree["rewards"] + 3 * other) == pytest.approx(how(tree["rewards"]) + 3 * how(other), abs=1e-9)


# -- what critics learn ----------------------------------------------------------------------------------------------


def fitted(kind, batch, critic, **settings):
    policy, config = Tabular(critic=critic), {"group_size": 2, "critic": CriticConfig(coef=1.0), **settings}
    next(iter(kind(kind.Config(**config)).update(batch, policy)))
    return policy.fits


def test_v_targets_by_hand():
    """Answers 00 and 11 first, then all pairs; V: 5 at the root, 12 after 00, 30 after 11."""
    values = {(): 5.0, ("0", "0"): 12.0, ("1", "1"): 30.0}
    batch, _ = played(Plan(2), TWO, [(0, 1, 0, 1)])
    batch = dataclasses.replace(batch, rewards=np.repeat(TREE["rewards"][:, None], 2, axis=1))
    for gamma, lam, wanted in (  # the target is the value plus the mean advantage of the steps there
        (1.0, 0.0, [(1 + 12 + 2 + 30) / 2, 15, 40]),
        (0.5, 0.0, [(1 + 6 + 2 + 15) / 2, 15, 40]),
        (1.0, 1.0, [(1 + 15 + 2 + 40) / 2, 15, 40]),
        (1.0, 0.5, [5 + (9.5 + 32) / 2, 15, 40]),
    ):
        ((name, shown, targets, weights, first),) = fitted(
            MAAC, batch, lambda n, said: values[said], gamma=gamma, lam=lam
        )
        assert (name, first) == ("critic/joint", True)
        assert shown == [(), ("0", "0"), ("1", "1")]
        assert targets.tolist() == pytest.approx(wanted)
        assert weights.tolist() == [1, 0.5, 0.5]


def test_q_targets_and_actor_weights_by_hand():
    """Q(h, a) is fitted to r + gamma * mean of Q over what was sampled next; the actor gets Q minus the others' mean."""
    table = {"00": 3.0, "11": 7.0, "0000": 1.0, "0011": 2.0, "1100": 4.0, "1111": 10.0}
    critic = lambda name, said: table["".join(said)]  # noqa: E731
    batch, _ = played(Plan(2), TWO, [(0, 1) * 6])
    batch = dataclasses.replace(batch, rewards=np.repeat(TREE["rewards"][:, None], 2, axis=1))
    ((_, shown, targets, weights, _),) = fitted(MAAC, batch, critic, critic_of="q", gamma=0.5)
    assert ["".join(said) for said in shown] == list(table)
    assert targets.tolist() == [1 + 0.5 * 1.5, 2 + 0.5 * 7, 10, 20, 30, 50]
    assert weights.tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    found = passed_on(MAAC, critic, critic_of="q", group_size=2)(batch)
    for agent in AGENTS:
        assert of(batch, agent, found) == [-4, 4, -1, 1, -6, 6]


def test_the_critic_reads_the_history_before_the_actions():
    for critic_of, lengths in (("v", {0, 2}), ("q", {2, 4})):
        ((_, shown, *_),) = fitted(MAAC, group(Plan(2), TWO), lambda n, said: 0.0, critic_of=critic_of)
        assert {len(said) for said in shown} == lengths


def test_a_decentralised_critic_reads_its_own_prompts_only():
    """Only at nodes where the agent is asked; with its own rewards, also those of steps where it is not."""
    rules = Rules(asked=("right",), own=True)
    batch, _ = played(Plan(2), rules, [(0, 1, 0, 1)])
    batch = dataclasses.replace(batch, rewards=np.stack([TREE["rewards"], -TREE["rewards"]], axis=1))
    fits = {f[0]: f for f in fitted(IAC, batch, lambda name, shown: 5.0 if shown[1] == 0 else 12.0)}
    _, shown, targets, weights, _ = fits["critic/left"]
    assert shown == [("left", 0)] and weights.tolist() == [1]
    assert targets.tolist() == [(1 + 15 + 2 + 40) / 2]  # all the rest of the episode is looked through
    _, shown, targets, weights, _ = fits["critic/right"]
    assert shown == [("right", 0), ("right", 1), ("right", 2)] and weights.tolist() == [1, 0.5, 0.5]
    assert targets.tolist() == [(-1 + 12 - 2 + 12) / 2, -15, -40]


def test_chains_weigh_a_node_by_its_chain():
    ((_, shown, targets, weights, _),) = fitted(
        MAAC, group(Plan(2, "chains"), TWO, rewards=[1.0, 2, 10, 30]), lambda n, said: 0.0, shape="chains", lam=1.0
    )
    assert targets.tolist() == [(11 + 32) / 2, 10, 30]
    assert weights.tolist() == [1, 0.5, 0.5]


def test_advantages_of_actors_are_standardised_per_agent():
    batch = group(Plan(3), ONE, rewards=[[1, 10], [2, 40], [6, 10]])
    found = passed_on(IAC, lambda name, shown: 3.0 if shown[0] == "left" else 20.0, standardize=True, std_eps=0.5)(
        batch
    )
    assert of(batch, "left", found) == pytest.approx(np.array([-2, -1, 3]) / (np.std([-2, -1, 3]) + 0.5))
    assert of(batch, "right", found) == pytest.approx(np.array([-10, 20, -10]) / (np.std([-10, 20, -10]) + 0.5))

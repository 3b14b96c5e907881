"""Every estimator's expected gradient against the exact one: two agents, two answers each, G = 2, one and two turns.

Nothing is sampled. All groups that a rollout can draw are played through the real rollout, update and loss, and summed
with their probabilities; the exact gradient is the derivative of the expected return itself. Both agree to 1e-9, or
do not agree at all: which estimators are biased, and by how much, is a result too.
"""

import dataclasses

import numpy as np
import pytest
from tabular import AGENTS, Rules, Tabular, all_groups, estimate, exact, factored_groups, played, true_values

from llm_marl_baselines import advantages
from llm_marl_baselines.algorithms import group_relative
from llm_marl_baselines.algorithms.iac import IAC
from llm_marl_baselines.algorithms.igrpo import IGRPO
from llm_marl_baselines.algorithms.maac import MAAC
from llm_marl_baselines.algorithms.magrpo import MAGRPO
from llm_marl_baselines.plan import Plan
from llm_marl_baselines.update import LossConfig

ONE = Rules(turns=1)
TWO = Rules()
ENDS = Rules(asked=("right",), goes_on=((1, 1),))  # all but one joint answer end it; then only one agent is asked
LATE = Rules(asked=("right",))
CHAINS = {"shape": "chains"}
CROSS = {"pairing": "cross"}
PLACES = {  # every way of branching, and the games on which all of its groups can be played
    "one turn": ({}, ONE),
    "one turn, cross": (CROSS, ONE),
    "one turn, chains": (CHAINS, ONE),
    "tree": ({}, LATE),
    "tree that ends": ({}, ENDS),
    "cross tree that ends": (CROSS, ENDS),
    "chains": (CHAINS, TWO),
    "chains that end": (CHAINS, dataclasses.replace(TWO, goes_on=((0, 1), (1, 1)))),
}


def magrpo(**settings):
    return MAGRPO(MAGRPO.Config(**{"group_size": 2, **settings}))


def igrpo(**settings):
    return IGRPO(IGRPO.Config(**{"group_size": 2, "standardize": False, **settings}))


def expected(algorithm, rules, policy=None):
    return estimate(algorithm, all_groups(dataclasses.replace(algorithm.plan, max_joint_actions=4096), rules), policy)


def distance(found, wanted, factor=1.0):
    """Largest difference of an entry, over the largest entry."""
    scale = max(np.abs(wanted[a]).max() for a in AGENTS)
    return max(np.abs(found[a] - factor * wanted[a]).max() for a in AGENTS) / scale


def misfit(found, wanted):
    """1 - cosine of the angle between the two gradients of all agents: what no learning rate can mend."""
    one, two = (np.concatenate([g[a].ravel() for a in AGENTS]) for g in (found, wanted))
    return 1 - one @ two / np.linalg.norm(one) / np.linalg.norm(two)


@pytest.mark.parametrize(
    ("plan", "rules", "number"), [(Plan(2), ONE, 16), (Plan(2, "chains"), TWO, 256), (Plan(2), LATE, 256)]
)
def test_all_groups_are_played_once(plan, rules, number):
    groups = all_groups(plan, rules)
    answers = [
        tuple(batch.responses[b].text for b in np.flatnonzero(batch.root[batch.response_node] == root))
        for batch, _ in groups
        for root in range(batch.num_roots)
    ]
    assert len(answers) == len(set(answers)) == number
    assert sum(chances.sum() for _, chances in groups) == pytest.approx(1, abs=1e-12)


# -- group-relative estimators --------------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["none", "loo"])
@pytest.mark.parametrize("place", PLACES)
def test_raw_and_leave_one_out_are_unbiased(place, baseline):
    settings, rules = PLACES[place]
    assert distance(expected(magrpo(baseline=baseline, **settings), rules), exact(rules)) < 1e-9


@pytest.mark.parametrize("place", [place for place in PLACES if place != "chains that end"])
def test_the_groups_mean_gives_a_share_of_the_gradient(place):
    """(G - 1) / G of it, at each turn: all rows of the tables, those of the second turn too."""
    settings, rules = PLACES[place]
    assert distance(expected(magrpo(**settings), rules), exact(rules), 0.5) < 1e-9


def test_the_mean_over_living_chains_gives_less_where_chains_end():
    """(n - 1) / n for n living chains, so what is left of a later turn is (G - 1) / G times the chance that the other
    chain lives. Leave-one-out has no such factor: see above."""
    settings, rules = PLACES["chains that end"]
    found, wanted = expected(magrpo(**settings), rules), exact(rules)
    lives = Tabular().probabilities()["right"][0, 1]  # it goes on where `right` answers 1
    for agent in AGENTS:
        assert found[agent][0] == pytest.approx(0.5 * wanted[agent][0], abs=1e-12)
        assert np.abs(wanted[agent][1:]).max() > 1e-3
        assert found[agent][1:] == pytest.approx(0.5 * lives * wanted[agent][1:], abs=1e-12)


@pytest.mark.parametrize(("baseline", "factor"), [("none", 1), ("loo", 1), ("mean", 0.5)])
@pytest.mark.parametrize("pairing", ["aligned", "cross"])
def test_trees_over_two_whole_turns(pairing, baseline, factor):
    """4,096 and 1,048,576 groups. Once the first turn's are given, these estimates are sums over the nodes of the
    second turn, so it is enough to vary one node's answers at a time."""
    algorithm = magrpo(baseline=baseline, pairing=pairing)
    more, less = (estimate(algorithm, groups) for groups in factored_groups(algorithm.plan, TWO))
    assert distance({a: more[a] - less[a] for a in AGENTS}, exact(TWO), factor) < 1e-9


@pytest.mark.parametrize("baseline", ["none", "loo", "mean"])
def test_varying_one_node_at_a_time_is_exact(baseline):
    algorithm = magrpo(baseline=baseline)
    more, less = (estimate(algorithm, groups) for groups in factored_groups(algorithm.plan, LATE))
    assert distance({a: more[a] - less[a] for a in AGENTS}, expected(algorithm, LATE)) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(("baseline", "factor"), [("none", 1), ("loo", 1), ("mean", 0.5)])
def test_all_4096_groups_of_a_tree_over_two_whole_turns(baseline, factor):
    assert distance(expected(magrpo(baseline=baseline), TWO), exact(TWO), factor) < 1e-9


@pytest.mark.parametrize(
    ("settings", "rules"), [({}, ONE), (CROSS, ONE), ({}, ENDS), (CROSS, ENDS), (CHAINS, TWO), (CHAINS, LATE)]
)
def test_the_greedy_joint_responses_return_is_an_unbiased_baseline(settings, rules):
    assert distance(expected(magrpo(baseline="greedy", **settings), rules), exact(rules)) < 1e-9


@pytest.mark.parametrize("rules", [ONE, ENDS])
def test_counterfactual_credit_is_unbiased(rules):
    assert distance(expected(magrpo(credit="counterfactual", baseline="loo"), rules), exact(rules)) < 1e-9


@pytest.mark.slow
def test_counterfactual_credit_is_unbiased_over_two_turns_of_held_teammates():
    algorithm = magrpo(credit="counterfactual", baseline="loo")
    more, less = (estimate(algorithm, groups) for groups in factored_groups(algorithm.plan, LATE))
    assert distance({a: more[a] - less[a] for a in AGENTS}, exact(LATE)) < 1e-9


@pytest.mark.parametrize("teammates", ["sampled", "fixed"])
@pytest.mark.parametrize(("baseline", "factor"), [("none", 1), ("loo", 1), ("mean", 0.5), ("greedy", 1)])
def test_each_agents_own_rewards_give_its_own_gradient(teammates, baseline, factor):
    for rules in (ONE, ENDS) if teammates == "sampled" or baseline == "loo" else (ONE,):
        rules = dataclasses.replace(rules, own=True)
        found = expected(igrpo(baseline=baseline, teammates=teammates), rules)
        assert distance(found, exact(rules), factor) < 1e-9
        assert distance(exact(rules), exact(dataclasses.replace(rules, own=False))) > 0.1


def test_the_discount_is_that_of_the_paper():
    """The factor gamma^t in front of later turns is left out: the first turn's gradient is that of the discounted
    return, the second turn's is 1 / gamma times it."""
    gamma = 0.6
    found, wanted = expected(magrpo(baseline="loo", gamma=gamma, **CHAINS), TWO), exact(TWO, gamma)
    for agent in AGENTS:
        assert found[agent][0] == pytest.approx(wanted[agent][0], abs=1e-12)
        assert found[agent][1:] == pytest.approx(wanted[agent][1:] / gamma, abs=1e-12)


def test_a_clipped_ratio_changes_nothing_in_the_first_pass():
    """And its only bias comes with the second one."""
    loss = LossConfig(clip_range=0.2, epochs=3)
    assert distance(expected(magrpo(baseline="loo", loss=loss, **CHAINS), TWO), exact(TWO)) < 1e-9


BIASED = {
    "standardised": {"standardize": True},
    "standardised leave-one-out": {"standardize": True, "baseline": "loo"},
    "standardised, spread floored": {"standardize": True, "std_eps": 0.1},
    "maximum": {"baseline": "max"},
}


@pytest.mark.parametrize("rules", [ONE, TWO], ids=["one turn", "two turns"])
@pytest.mark.parametrize("name", BIASED)
def test_standardised_and_maximum_are_biased(name, rules, record_property):
    """In direction, not only in length: what divides or is subtracted depends on the response itself."""
    off = misfit(expected(magrpo(**BIASED[name], **CHAINS), rules), exact(rules))
    print(f"{name}, {rules.turns} turn(s): 1 - cosine = {off:.4f}")
    record_property("one_minus_cosine", off)
    assert off > 1e-4


def test_groups_over_all_turns_are_biased_over_several_turns_only():
    """``group_by=agent`` (Dr. MAS): a return of another turn of the same chain depends on the response itself."""
    for baseline, factor in (("loo", 1), ("mean", 0.5)):
        settings = {"group_by": "agent", "baseline": baseline, **CHAINS}
        assert distance(expected(magrpo(**settings), ONE), exact(ONE), factor) < 1e-9
        assert misfit(expected(magrpo(**settings), TWO), exact(TWO)) > 1e-4


def test_groups_over_agents_under_a_joint_reward():
    """``group_by=turn``: of the 2G - 1 others one has the response's own return, the teammate's of its joint action.
    The mean is the agent's own, so nothing changes; leave-one-out keeps (2G - 2) / (2G - 1) of the gradient."""
    for settings, rules in (({}, ONE), (CHAINS, TWO)):
        true = exact(rules)
        assert distance(expected(magrpo(group_by="turn", **settings), rules), true, 1 / 2) < 1e-9
        assert distance(expected(magrpo(group_by="turn", baseline="loo", **settings), rules), true, 2 / 3) < 1e-9
    assert misfit(expected(magrpo(group_by="root", baseline="loo", **CHAINS), TWO), exact(TWO)) > 1e-4


def test_cross_pairing_has_the_smaller_variance_in_one_turn(record_property):
    """By theory (Rao-Blackwell): it is the mean of the aligned estimate over all ways of pairing the same responses."""
    for baseline in ("none", "loo"):
        spread = {}
        for pairing in ("aligned", "cross"):
            algorithm = magrpo(baseline=baseline, pairing=pairing)
            spread[pairing] = moments(all_groups(algorithm.plan, ONE), lambda b, how=algorithm: how.advantages(b))
        for agent in AGENTS:
            record_property(f"{baseline}/{agent}", str({p: float(s[agent][0].sum()) for p, s in spread.items()}))
            assert (spread["cross"][agent][0] < spread["aligned"][agent][0]).all()


def moments(groups, advantages_of):
    """For each agent the expected square of every entry of a group's gradient estimate."""
    policy = Tabular()
    chances = policy.probabilities()
    total = {a: np.zeros(p.shape) for a, p in chances.items()}
    for batch, group_chances in groups:
        weighed = batch.weight * advantages_of(batch)
        one = {a: np.zeros((batch.num_roots, *p.shape)) for a, p in chances.items()}
        for b in np.flatnonzero(batch.trained):
            agent, response = AGENTS[batch.response_agent[b]], batch.responses[b]
            row, answer = int(response.prompt_ids[0]), int(response.token_ids[0])
            score = np.eye(2)[answer] - chances[agent][row]  # derivative of log softmax
            one[agent][batch.root[batch.response_node[b]], row] += weighed[b] * score
        for agent in AGENTS:
            total[agent] += np.einsum("g,gra->ra", group_chances, one[agent] ** 2)
    return total


# -- actor-critics ---------------------------------------------------------------------------------------------------


def wrong(name, shown):
    """A critic that is wrong everywhere, everywhere differently."""
    return float(np.random.default_rng(list(repr((name, shown)).encode())).normal())


def right(rules, gamma=1.0, of="v"):
    values = true_values(rules, gamma)

    def critic(name, shown):
        if name == "critic/joint":
            return values[("q", *shown) if of == "q" else shown][0]
        return values[shown][AGENTS.index(shown[0]) if rules.own else 0]

    return critic


AC_PLACES = {
    "one turn": ({}, ONE),
    "tree": ({}, LATE),
    "tree that ends": ({}, ENDS),
    "chains": (CHAINS, TWO),
    "single episodes": ({"group_size": 1}, TWO),
}


def actor_critic(kind, **settings):
    return kind(kind.Config(**{"group_size": 2, **settings}))


@pytest.mark.parametrize("kind", [MAAC, IAC])
@pytest.mark.parametrize("place", AC_PLACES)
def test_the_return_minus_any_value_is_unbiased(kind, place):
    settings, rules = AC_PLACES[place]
    rules = dataclasses.replace(rules, own=kind is IAC)
    algorithm = actor_critic(kind, lam=1.0, **settings)
    assert distance(expected(algorithm, rules, Tabular(critic=wrong)), exact(rules)) < 1e-9


@pytest.mark.parametrize("lam", [0.0, 0.4])
@pytest.mark.parametrize("kind", [MAAC, IAC])
@pytest.mark.parametrize("place", AC_PLACES)
def test_td_errors_are_unbiased_at_the_true_values(kind, place, lam):
    """Also for decentralised critics, whose true values average over what the others know: both are right in
    expectation (arXiv 2102.04402)."""
    settings, rules = AC_PLACES[place]
    rules = dataclasses.replace(rules, own=kind is IAC)
    algorithm = actor_critic(kind, lam=lam, **settings)
    assert distance(expected(algorithm, rules, Tabular(critic=right(rules))), exact(rules)) < 1e-9


@pytest.mark.parametrize("kind", [MAAC, IAC])
def test_td_errors_at_wrong_values_are_biased(kind):
    algorithm = actor_critic(kind, **CHAINS)
    assert misfit(expected(algorithm, TWO, Tabular(critic=wrong)), exact(TWO)) > 1e-4


@pytest.mark.parametrize("place", ["one turn", "tree", "tree that ends"])
def test_q_minus_the_mean_of_the_others_is_unbiased_at_the_true_q(place):
    settings, rules = AC_PLACES[place]
    algorithm = actor_critic(MAAC, critic_of="q", **settings)
    policy = Tabular(critic=right(rules, of="q"))
    assert distance(expected(algorithm, rules, policy), exact(rules)) < 1e-9


def test_a_td_error_of_the_true_q_would_teach_nothing():
    """Why Q is compared with the others' mean: r + V(next) - Q is zero in expectation for every response."""
    policy = Tabular(critic=right(LATE, of="q"))
    total = 0.0
    for batch, chances in all_groups(Plan(2), LATE):
        next(iter(actor_critic(MAAC, critic_of="q").update(batch, policy)))
        _, shown, targets, weights, _ = policy.fits[-1]
        error = targets - np.array([policy.critic("critic/joint", said) for said in shown])
        first = batch.parent < 0
        total += (chances[batch.root[batch.step_node]] * error * weights * batch.num_roots)[first].sum()
        assert np.abs(error[first]).max() > 0.01
    assert abs(total) < 1e-12


def test_the_critics_targets_are_right_in_expectation():
    """At the true values the expected target of every history is its value, whatever lambda is."""
    for lam in (0.0, 0.4, 1.0):
        policy = Tabular(critic=right(TWO))
        sums: dict[tuple, np.ndarray] = {}
        for batch, chances in all_groups(Plan(2, "chains"), TWO):
            next(iter(actor_critic(MAAC, lam=lam, **CHAINS).update(batch, policy)))
            _, shown, targets, weights, _ = policy.fits[-1]
            for node, (said, target) in enumerate(zip(shown, targets, strict=True)):
                weight = chances[batch.root[node]] * weights[node] * batch.num_roots
                sums[said] = sums.get(said, 0) + weight * np.array([target, 1])
        assert len(sums) == 5
        for said, (total, weight) in sums.items():
            assert total / weight == pytest.approx(true_values(TWO)[said][0], abs=1e-12)


def test_a_centralised_critic_can_raise_the_variance(record_property):
    """arXiv 2102.04402, exactly. Only the second turn pays, both critics are true, lambda is 0: the first turn's TD
    errors are V(next) - V. The decentralised one is the mean of the centralised one over what the agent does not see,
    so its square is smaller (Jensen), while both have the same expectation, the gradient. `left` is told whether the
    answers were the same, so it knows all; `right` does not."""
    rules = dataclasses.replace(TWO, late=True)
    groups = all_groups(Plan(1), rules)
    found = {}
    for kind in (MAAC, IAC):
        algorithm, policy = actor_critic(kind, group_size=1), Tabular(critic=right(rules))
        assert distance(expected(algorithm, rules, policy), exact(rules)) < 1e-9
        found[kind] = moments(groups, lambda batch, how=algorithm, who=policy: td_errors(how, batch, who))
    for agent in AGENTS:
        central, own = (found[kind][agent][0].sum() for kind in (MAAC, IAC))
        print(f"{agent}: E|g|^2 of the first turn: centralised {central:.5f}, decentralised {own:.5f}")
        record_property(agent, f"centralised {central}, decentralised {own}")
        if agent == "left":
            assert central == pytest.approx(own, abs=1e-12)
        else:
            assert central > 1.01 * own


def td_errors(algorithm, batch, policy):
    """(B,) what the update gives the actors, read off the gradient function it calls."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "llm_marl_baselines.algorithms.critic_based.policy_updates",
            lambda policy, batch, advantages, config, stats: iter([seen.append(advantages) or {}]),
        )
        next(iter(algorithm.update(batch, policy)))
    return seen[0]


# -- and these tests can fail ----------------------------------------------------------------------------------------


def heavy_deep_turns(batch):
    """What a peer does: deep turns weigh as if there were no branches."""
    deep = batch.turn[batch.response_node] == 1
    return dataclasses.replace(batch, weight=np.where(deep, 2 * batch.weight, batch.weight))


def redistributed(batch):
    """The weight of ended branches goes to the others."""
    weight = batch.weight.copy()
    for agent in (0, 1):
        for root in range(batch.num_roots):
            deep = (batch.turn[batch.response_node] == 1) & (batch.response_agent == agent)
            deep &= batch.root[batch.response_node] == root
            if deep.any():
                weight[deep] /= weight[deep].sum()
    return dataclasses.replace(batch, weight=weight)


@pytest.mark.parametrize(("spoil", "rules"), [(heavy_deep_turns, LATE), (redistributed, ENDS)])
def test_wrong_weights_are_noticed(spoil, rules):
    groups = [(spoil(batch), chances) for batch, chances in all_groups(Plan(2), rules)]
    assert distance(estimate(magrpo(baseline="loo"), groups), exact(rules)) > 1e-3


def sums_of_children(rewards, parent, gamma, share=None):
    return advantages.step_returns(rewards, parent, gamma, np.ones(len(parent)))


def no_future(rewards, parent, gamma, share=None):
    return np.array(rewards)


@pytest.mark.parametrize("spoilt", [sums_of_children, no_future])
def test_wrong_returns_are_noticed(spoilt, monkeypatch):
    monkeypatch.setattr("llm_marl_baselines.algorithms.group_relative.step_returns", spoilt)
    assert distance(expected(magrpo(baseline="loo"), LATE), exact(LATE)) > 1e-3


def test_a_wrong_leave_one_out_is_noticed(monkeypatch):
    right_one = group_relative.group_advantages
    monkeypatch.setattr(
        group_relative, "group_advantages", lambda *args, **kwargs: right_one(*args, **{**kwargs, "baseline": "mean"})
    )
    assert distance(expected(magrpo(baseline="loo"), ONE), exact(ONE)) > 0.4


def test_what_is_enumerated_is_what_is_asked():
    """The chat of an agent holds its own answer in every branch, also where a sibling has ended the episode: the table
    of a policy that remembers would have no row for it otherwise."""
    batch, _ = played(Plan(2), ENDS, [(1, 0, 1, 0)])  # the first branch goes on, the second one ends
    assert batch.terminated[:2].tolist() == [False, True]
    assert [int(r.prompt_ids[0]) for r in batch.responses[4:]] == [2, 2]  # row ("1", "second")
    assert batch.histories[1].count("writes") == 2

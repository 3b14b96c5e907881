"""A game so small that every group that can be sampled is enumerated, and a policy that is a table of logits.

No sampling anywhere: expectations are sums over all groups with their probabilities, played through the real rollout.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import torch
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from llm_marl_baselines.algorithms.base import Algorithm
from llm_marl_baselines.batch import Batch
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Response, Scored
from llm_marl_baselines.rollout import collect

AGENTS = ("left", "right")
PAIRS = tuple(itertools.product((0, 1), repeat=2))
ROWS = {  # own histories, without the first observation: a table's rows
    "left": [(), ("0", "same"), ("0", "other"), ("1", "same"), ("1", "other")],
    "right": [(), ("0", "second"), ("1", "second")],
}
_rng = np.random.default_rng(7)
FIRST = _rng.normal(size=(2, 2, 2))  # reward of the first turn: agent, left's answer, right's
SECOND = _rng.normal(size=(2, 2, 2, 2, 2))  # of the second: agent, answers of both turns
Joint = tuple[int, int]
SEEN, ANSWER = Text(20, charset="#0123456789abcdefghijklmnopqrstuvwxyz"), Text(1, min_length=1, charset="01")


@dataclasses.dataclass(frozen=True)
class Rules:
    """A game of two agents with two answers each.

    Attributes:
        turns: 1 or 2.
        asked: who is asked in the second turn.
        goes_on: the first joint answers after which there is a second turn.
        own: whether each agent has rewards of its own.
        late: whether only the second turn pays.
    """

    turns: int = 2
    asked: tuple[str, ...] = AGENTS
    goes_on: tuple[Joint, ...] = PAIRS
    own: bool = False
    late: bool = False

    def first(self, joint: Joint) -> list[float]:
        return [0.0 if self.late else float(FIRST[i if self.own else 0][joint]) for i in (0, 1)]

    def second(self, joint: Joint, then: Joint) -> list[float]:
        return [float(SECOND[i if self.own else 0][joint + then]) for i in (0, 1)]

    def told(self, joint: Joint) -> dict[str, str]:
        return {"left": "same" if joint[0] == joint[1] else "other", "right": "second"}

    def over(self, joint: Joint) -> bool:
        return self.turns == 1 or joint not in self.goes_on


class Game(ParallelEnv):
    """The rules as an environment. It shows its seed, so that a policy can tell the starts of a rollout apart."""

    metadata = {"name": "game"}

    def __init__(self, rules: Rules):
        self.rules, self.num_turns = rules, rules.turns
        self.possible_agents = list(AGENTS)

    def observation_space(self, agent):
        return SEEN

    def action_space(self, agent):
        return ANSWER

    def reset(self, seed=None, options=None):
        self.agents, self.played = list(AGENTS), []
        return {a: f"#{seed}" for a in AGENTS}, {a: {} for a in AGENTS}

    def clone(self):
        twin = Game(self.rules)
        twin.agents, twin.played = list(self.agents), list(self.played)
        return twin

    def step(self, actions):
        joint = (int(actions["left"]), int(actions["right"]))
        if not self.played:
            paid, over = self.rules.first(joint), self.rules.over(joint)
        else:
            paid, over = self.rules.second(self.played[0], joint), True
        self.played.append(joint)
        self.agents = [] if over else list(AGENTS)
        seen = self.rules.told(joint)
        infos = {a: {"acts": int(a in self.rules.asked)} for a in AGENTS}
        ended = dict.fromkeys(AGENTS, over)
        return seen, dict(zip(AGENTS, paid, strict=True)), ended, dict.fromkeys(AGENTS, False), infos


class Tabular:
    """A trainable policy that is a table of logits for each agent, and critics that are functions.

    It does not sample: the answers at start number i follow ``script[i]``, bit by bit in the order in which it is
    asked, and are 0 after its end. A response's ``raw_text`` is its place in that order.

    Args:
        critic: (name of the critic, what it is shown) -> value. A centralised critic is shown the joint answers so
            far, a decentralised one (agent, row of the table).
    """

    def __init__(self, seed: int = 0, critic: Callable[[str, tuple], float] = lambda name, shown: 0.0):
        generator = torch.Generator().manual_seed(seed)
        self.logits = {
            a: torch.randn(len(ROWS[a]), 2, generator=generator, dtype=torch.float64).requires_grad_() for a in AGENTS
        }
        self.critic = critic
        self.follow([()])
        self.fits: list[tuple[str, list[tuple], np.ndarray, np.ndarray, bool]] = []
        self.added: list[tuple[str, str, bool]] = []
        self.shown: list[tuple] = []

    def follow(self, script: Sequence[tuple[int, ...]]) -> None:
        self.script = script
        self.taken: list[list[int]] = [[] for _ in script]
        self.chances: list[list[float]] = [[] for _ in script]

    def row(self, agent: str, messages) -> int:
        return ROWS[agent].index(tuple(m["content"] for m in messages[1:]))

    def generate(self, requests, *, seed, greedy=False):
        results = []
        for request in requests:
            start, row = int(request.messages[0]["content"][1:]), self.row(request.agent, request.messages)
            with torch.no_grad():
                logp = torch.log_softmax(self.logits[request.agent][row], 0).numpy()
            given = []
            for _ in range(request.num_samples):
                taken, script = self.taken[start], self.script[start]
                place = len(taken)
                action = int(logp.argmax()) if greedy else script[place] if place < len(script) else 0
                if not greedy:
                    taken.append(action)
                    self.chances[start].append(float(np.exp(logp[action])))
                given.append(
                    Response(
                        str(action),
                        "greedy" if greedy else str(place),
                        np.array([row]),
                        np.array([action]),
                        logp[[action]],
                    )
                )
            results.append(given)
        return results

    def score(self, agent, prompt_ids, token_ids, *, reference=False, grad=True) -> Iterator[Scored]:
        for index in torch.arange(len(prompt_ids)).split(200):
            rows, actions = (torch.tensor([int(x[i][0]) for i in index]) for x in (prompt_ids, token_ids))
            logp = torch.log_softmax(self.logits[agent], 1)[rows, actions][:, None]
            yield Scored(index, logp, torch.ones_like(logp, dtype=torch.bool), torch.zeros_like(logp))

    separate_sampler = False

    def trains(self, agent):
        return True

    def learner_of(self, agent):
        return agent

    def parameters(self, learner):
        return [self.logits[learner]]

    @property
    def learners(self):
        return [*AGENTS, *(name for name, _, _ in self.added)]

    @property
    def critics(self):
        return self  # both in one: this class is all there is

    @property
    def names(self):
        return [name for name, _, _ in self.added]

    def add(self, name, agent, *, head_only=False):
        self.added.append((name, agent, head_only))

    def encode(self, critic, text):
        """The joint answers in a joint history, as a number that stands for them."""
        lines = text.split("\n")
        said = tuple(lines[i + 1] for i, line in enumerate(lines) if line.endswith("writes]"))
        if said not in self.shown:
            self.shown.append(said)
        return np.array([self.shown.index(said)])

    def _seen(self, critic, text) -> tuple:
        agent = critic.removeprefix("critic/")
        return (agent, int(text[0])) if agent in AGENTS else self.shown[int(text[0])]

    def values(self, critic, texts):
        return np.array([self.critic(critic, self._seen(critic, text)) for text in texts])

    def fit(self, critic, texts, targets, weights, *, first=True):
        self.fits.append((critic, [self._seen(critic, text) for text in texts], targets, weights, first))
        return 0.0

    def probabilities(self) -> dict[str, np.ndarray]:
        """For each agent (rows, 2)."""
        return {a: torch.softmax(self.logits[a].detach(), 1).numpy() for a in AGENTS}


Groups = Sequence[tuple[Batch, np.ndarray]]  # batches, and the probability of what happened at each of their starts
CHUNK = 128


def played(plan: Plan, rules: Rules, script: Sequence[tuple[int, ...]]) -> tuple[Batch, Tabular]:
    """One start for each entry of the script."""
    policy = Tabular()
    policy.follow(script)
    starts = [Start(i) for i in range(len(script))]
    batch = collect(dict.fromkeys(AGENTS, policy), lambda: Game(rules), starts, plan, seed=0)
    return batch, policy


@cache
def all_groups(plan: Plan, rules: Rules) -> Groups:
    """Every group that can be sampled from one start, each once, with its probability."""
    plan = dataclasses.replace(plan, max_joint_actions=10**9)
    found: list[tuple[Batch, np.ndarray]] = []
    pending: list[tuple[int, ...]] = [()]
    while pending:
        now, pending = pending[-CHUNK:], pending[:-CHUNK]
        batch, policy = played(plan, rules, now)
        found.append((batch, np.array([np.prod(c) for c in policy.chances])))
        for prefix, taken in zip(now, policy.taken, strict=True):
            # Past its prefix everything was 0: the rest are those that first differ at place i.
            pending += [(*taken[:i], 1) for i in range(len(prefix), len(taken))]
    assert abs(sum(p.sum() for _, p in found) - 1) < 1e-12
    return found


@cache
def factored_groups(plan: Plan, rules: Rules) -> tuple[Groups, Groups]:
    """Two sets of groups whose difference has the expectation of all groups, for an estimate that is a sum over the
    nodes of the second turn once the first is given: it is then enough to vary one node at a time."""
    plan = dataclasses.replace(plan, max_joint_actions=10**9)
    roots = plan.samples(2, 0) * 2
    # (script, factor, places whose chances count beside it)
    plus: list[tuple[tuple[int, ...], float, list[int]]] = []
    minus: list[tuple[tuple[int, ...], float, list[int]]] = []
    for script in itertools.product((0, 1), repeat=roots):
        batch, policy = played(plan, rules, [script])
        chance, length = float(np.prod(policy.chances[0][:roots])), len(policy.taken[0])
        nodes = np.flatnonzero(batch.turn == 1)
        minus.append((script, chance * (len(nodes) - 1), []))
        for node in nodes:
            places = [int(batch.responses[b].raw_text) for b in np.flatnonzero(batch.response_node == node)]
            for bits in itertools.product((0, 1), repeat=len(places)):
                full = [*script, *[0] * (length - roots)]
                for place, bit in zip(places, bits, strict=True):
                    full[place] = bit
                plus.append((tuple(full), chance, places))

    def weighed(wanted) -> Groups:
        found = []
        for i in range(0, len(wanted), CHUNK):
            part = wanted[i : i + CHUNK]
            batch, policy = played(plan, rules, [script for script, _, _ in part])
            own = [np.prod([policy.chances[n][p] for p in places]) for n, (_, _, places) in enumerate(part)]
            found.append((batch, np.array([chance for _, chance, _ in part]) * own))
        return found

    return weighed(plus), weighed(minus)


def estimate(algorithm: Algorithm, groups: Groups, policy: Tabular | None = None) -> dict[str, np.ndarray]:
    """The expectation, over the groups, of what the algorithm's update adds to each agent's gradient (as an ascent
    direction), computed by the update itself: the weights of a group's responses are multiplied by its probability."""
    policy = policy or Tabular()
    for parameter in policy.logits.values():
        parameter.grad = torch.zeros_like(parameter)
    for batch, chances in groups:
        factor = chances[batch.root[batch.response_node]] * batch.num_roots
        next(iter(algorithm.update(dataclasses.replace(batch, weight=batch.weight * factor), policy)))
    return {a: -p.grad.numpy() for a, p in policy.logits.items()}


def paths(rules: Rules) -> Iterator[tuple[list[tuple[str, int, int]], list[list[float]]]]:
    """Every episode: its decisions (agent, row, answer), and the rewards of its turns (turn, agent)."""
    for joint in PAIRS:
        decisions = [(a, 0, joint[i]) for i, a in enumerate(AGENTS)]
        if rules.over(joint):
            yield decisions, [rules.first(joint)]
            continue
        told = rules.told(joint)
        rows = [ROWS[a].index((str(joint[i]), told[a])) for i, a in enumerate(AGENTS)]
        for then in itertools.product(*((0, 1) if a in rules.asked else (0,) for a in AGENTS)):
            later = [(a, rows[i], then[i]) for i, a in enumerate(AGENTS) if a in rules.asked]
            yield decisions + later, [rules.first(joint), rules.second(joint, then)]


def exact(rules: Rules, gamma: float = 1.0, policy: Tabular | None = None) -> dict[str, np.ndarray]:
    """The gradient of each agent's expected return (its own rewards) with respect to its own logits, by differentiating
    the expectation itself: nothing of score functions is in it."""
    policy = policy or Tabular()
    logp = {a: torch.log_softmax(p, 1) for a, p in policy.logits.items()}
    expected = {a: torch.zeros((), dtype=torch.float64) for a in AGENTS}
    for decisions, rewards in paths(rules):
        chance = torch.exp(sum(logp[a][row, answer] for a, row, answer in decisions))
        for i, agent in enumerate(AGENTS):
            expected[agent] = expected[agent] + chance * sum(gamma**t * r[i] for t, r in enumerate(rewards))
    return {a: torch.autograd.grad(expected[a], policy.logits[a], retain_graph=True)[0].numpy() for a in AGENTS}


def true_values(rules: Rules, gamma: float = 1.0) -> Mapping[tuple, np.ndarray]:
    """Expected return from here on, (agent,): of each joint history (what was answered, left and right in turn; also
    after joint answers), and, by (agent, row), of each agent's own history, the others' averaged out."""
    chances = Tabular().probabilities()
    total: dict[tuple, np.ndarray] = {}
    weight: dict[tuple, float] = {}

    def add(key, chance, value):
        total[key] = total.get(key, 0.0) + chance * np.array(value)
        weight[key] = weight.get(key, 0.0) + chance

    for decisions, rewards in paths(rules):
        chance = float(np.prod([chances[a][row, answer] for a, row, answer in decisions]))
        later = np.array(rewards[1]) if len(rewards) > 1 else np.zeros(2)
        whole = np.array(rewards[0]) + gamma * later
        said = tuple(str(answer) for _, _, answer in decisions)
        add((), chance, whole)
        add(("q", *said[:2]), chance, whole)
        if len(rewards) > 1:
            add(said[:2], chance, later)
            add(("q", *said), chance, later)
        for agent, row, _ in decisions:
            add((agent, row), chance, whole if row == 0 else later)
    return {key: total[key] / weight[key] for key in total}

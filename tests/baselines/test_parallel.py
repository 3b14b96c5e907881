"""Training on several processes: the same numbers as on one, one voice, and one end for all."""

import copy
import json
import os
import random
import signal
import socket
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import processes
import pytest
import torch
from forked import kill_self, on_call
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo import ParallelEnv

from llm_marl_baselines import checkpoint, evaluate, launchers, optim, parallel, trainer
from llm_marl_baselines import run as runs
from llm_marl_baselines.batch import Batch
from llm_marl_baselines.checkpoint import complete
from llm_marl_baselines.errors import ProcessError, ProcessLostError
from llm_marl_baselines.optim import Optimizers
from llm_marl_baselines.plan import Plan, Start
from llm_marl_baselines.policies.base import Response
from llm_marl_baselines.rollout import collect
from llm_marl_baselines.settings import parse
from llm_marl_envs import make
from llm_marl_envs.errors import ConfigError, DataError
from llm_marl_envs.spaces import UnicodeText

# --- batches of parts


class Fates(ParallelEnv):
    """Three agents, at most three turns. What was said so far decides whether an episode ends, who is asked, and
    whether the third agent leaves."""

    metadata = {"name": "fates", "history": "none"}
    possible_agents = ["a", "b", "c"]
    render_mode = None

    def __init__(self):
        self.said, self.agents = "", []

    def observation_space(self, agent):
        return UnicodeText(1000)

    def action_space(self, agent):
        return UnicodeText(100)

    def _asks(self, agent):
        return {"acts": int(zlib.crc32((self.said + agent).encode()) % 4 > 0)}

    def reset(self, seed=None, options=None):
        self.agents, self.said, self.turn = list(self.possible_agents), f"{seed}", 0
        return {a: self.said for a in self.agents}, {a: self._asks(a) for a in self.agents}

    def step(self, actions):
        self.turn += 1
        self.said += "|" + ",".join(actions[a] for a in self.agents)
        fate = zlib.crc32(self.said.encode())
        here = list(self.agents)
        over = self.turn == 3 or fate % 5 == 0
        cut = over and fate % 2 == 0
        gone = here if over else [a for a in here if a == "c" and fate % 3 == 0]
        self.agents = [a for a in here if a not in gone]
        infos = {a: {"score": fate % 7, **self._asks(a)} for a in here}
        ends = [{a: (a in gone and (cut == which)) for a in here} for which in (False, True)]
        return {a: self.said for a in here}, {a: fate % 11 / 11 for a in here}, *ends, infos

    def state(self):
        return self.said

    def clone(self):
        twin = copy.copy(self)
        twin.agents = list(self.agents)
        return twin


class Drawn:
    """Draws every sample by its own seed."""

    def __init__(self):
        self.asked = []

    def generate(self, requests, *, seed, greedy=False):
        self.asked += requests
        found = []
        for request in requests:
            texts = ["x" if greedy else random.Random(s).choice("xyz") for s in request.seeds]
            ids = [np.arange(1 + s % 3) for s in request.seeds]
            found.append([Response(t, token_ids=i, logprobs=i * 0.5) for t, i in zip(texts, ids, strict=True)])
        return found


def play(plan, starts, first=0, seed=3, make_env=Fates):
    policy = Drawn()
    return collect(dict.fromkeys(make_env().possible_agents, policy), make_env, starts, plan, seed=seed, first=first)


def assert_same(one, other):
    for name in one.__dataclass_fields__:
        left, right = getattr(one, name), getattr(other, name)
        if name == "responses":
            assert [(r.text, r.token_ids.tolist()) for r in left] == [(r.text, r.token_ids.tolist()) for r in right]
        elif isinstance(left, np.ndarray):
            assert left.dtype == right.dtype and left.shape == right.shape, name
            np.testing.assert_array_equal(left, right, err_msg=name)
        else:
            assert left == right, name


PLANS = [
    *(Plan(g, shape) for g in (1, 2) for shape in ("tree", "chains")),
    *(Plan(2, pairing=pairing) for pairing in ("cross", "held")),
    *(Plan(2, shape, pairing, greedy=True) for shape, pairing in (("chains", "aligned"), ("tree", "cross"))),
]


@settings(max_examples=50)
@given(st.sampled_from(PLANS), st.integers(1, 6), st.integers(0, 50), st.sets(st.integers(1, 5)))
def test_parts_of_a_rollout_make_the_whole(plan, count, seed, cuts):
    starts = [Start(seed + i) for i in range(count)]
    edges = [0, *sorted(cut for cut in cuts if cut < count), count]
    parts = [play(plan, starts[a:b], a, seed) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    assert_same(Batch.join(parts), play(plan, starts, 0, seed))


def test_the_property_meets_all_that_can_happen():
    batch = play(Plan(2, greedy=True), [Start(i) for i in range(6)])
    assert (batch.truncated.any() and batch.terminated.any() and batch.greedy.any()) and not batch.present.all()
    assert not batch.acted[batch.present].all() and len(set(batch.turn[batch.step_node][batch.terminated])) > 1


def test_equal_questions_are_still_asked_once():
    policy = Drawn()
    env = lambda: make("probe/two-turn-v0")  # noqa: E731
    collect(dict.fromkeys(env().possible_agents, policy), env, [Start(0)] * 3, Plan(2), seed=1)
    first = [r for r in policy.asked if len(r.messages) == 1]
    assert [r.num_samples for r in first] == [6, 6]
    assert all(len(set(r.seeds)) == len(r.seeds) == r.num_samples for r in policy.asked)
    assert not {*first[0].seeds} & {*first[1].seeds}


@given(st.integers(0, 20), st.integers(1, 8))
def test_blocks_cover_everything_once_and_in_order(count, size):
    before = parallel._group
    parallel._group = parallel._Group(size, 0, torch.device("cpu"))
    try:
        blocks = [list(parallel.block(count, number)) for number in range(size)]
    finally:
        parallel._group = before
    assert [i for found in blocks for i in found] == list(range(count))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


# --- one update

TWO_TURN = "--env probe/two-turn-v0 --protocol games:Spread --model tiny --dtype float64 --rows_per_step 3".split()
REDUCTIONS = ("sequence", "response", "token", "fixed")
CASES = {
    "magrpo": ("magrpo",),
    **{
        f"magrpo {r}, KL, clip, epochs": (
            *("magrpo", f"loss.reduction={r}", "loss.fixed_length=5"),
            *("loss.kl_coef=0.1", "loss.clip_range=0.2", "loss.epochs=2"),
        )
        for r in REDUCTIONS
    },
    "magrpo shared, chains": ("magrpo", "shape=chains", "standardize=true", "sharing=shared"),
    "magrpo full, cross": ("magrpo", "pairing=cross", "sharing=full"),
    "magrpo greedy": ("magrpo", "baseline=greedy"),
    "magrpo one root": ("magrpo",),
    "igrpo": ("igrpo", "teammates=fixed"),
    "maac": ("maac", "standardize=true", "lam=0.5"),
    "maac q": ("maac", "critic_of=q"),
    "mappo": ("mappo", "critic.warmup=false"),
    "iac": ("iac", "standardize=true", "critic.epochs=2"),
    "iac head": ("iac", "critic.weights=actor", "sharing=shared"),
    "iac full": ("iac", "critic.weights=actor", "sharing=full"),
}


def build(case, *extra):
    name, *settings = CASES[case]
    given_ = [s if s.startswith("sharing") else f"algorithm.{s}" for s in settings]
    args = [
        *TWO_TURN,
        "--trackers",
        "[]",
        "--algorithm.gamma=0.9",
        "--algorithm.group_size=2",
        *(f"--{s}" for s in given_),
        *extra,
    ]
    return runs.build(parse(name, args), Path())


def record(case, *extra):
    """A rollout to learn from."""
    made = build(case, *extra)
    return collect(made.policies, made.make_env, made.starts(0), made.algorithm.plan, seed=5)


def learn(case, batch, *extra):
    """Every gradient that the optimisers were given, the diagnostics, and the weights in the end: learner -> array."""
    made = build(case, *extra)
    gradients, found, summed = [], [], parallel.sum_gradients

    def spy(parameters):
        summed(parameters)
        gradients.append(
            {n: [None if p.grad is None else p.grad.numpy().copy() for p in ps] for n, ps in parameters.items()}
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optim.parallel, "sum_gradients", spy)
        for stats in made.algorithm.update(batch, made.policy):
            found.append(stats)
            made.optimizers.step(0)
    weights = {n: [p.detach().numpy().copy() for p in made.policy.parameters(n)] for n in made.policy.learners}
    moments = {critic.name: critic.moments.tolist() for critic in made.policy.critics}
    return gradients, weights, moments, found


def apart(one, other):
    """Largest distance of two lists of arrays, relative to the norm of the first."""
    assert [x is None for x in one] == [x is None for x in other]
    flat = [np.concatenate([x.ravel() for x in side if x is not None] or [np.zeros(1)]) for side in (one, other)]
    return float(np.linalg.norm(flat[0] - flat[1]) / max(np.linalg.norm(flat[0]), 1e-30))


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    """Case -> what one process found, and what each of two did, fed the same rollout."""
    folder = tmp_path_factory.mktemp("updates")
    one_root = {"magrpo one root": ["--rows_per_step=1"]}  # and the second process has none
    batches = {case: record(case, *one_root.get(case, [])) for case in CASES}

    def work(index):
        parallel.start()
        assert parallel.size() == 2 and parallel.index() == index
        return {case: learn(case, batch) for case, batch in batches.items()}

    first, second = processes.run(2, work, folder)
    return {case: (learn(case, batches[case]), first[case], second[case]) for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_make_the_update_of_one(case, updates):
    alone, *both = updates[case]
    for gradients, weights, moments, stats in both:
        assert len(gradients) == len(alone[0]) and moments == alone[2]
        for one, other in zip([*alone[0], alone[1]], [*gradients, weights], strict=True):
            assert one.keys() == other.keys()
            for learner in one:
                assert apart(one[learner], other[learner]) < 1e-7, learner  # AdamW makes a step of any gradient
        for one, other in zip(alone[3], stats, strict=True):
            assert one == pytest.approx(other, rel=1e-7, abs=1e-12)
    assert any(np.abs(g).sum() > 0 for step in alone[0] for gs in step.values() for g in gs if g is not None)
    for one, other in zip(both[0][1].values(), both[1][1].values(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))  # bit for bit, or they drift apart


def test_single_precision(tmp_path):
    case = "magrpo token, KL, clip, epochs"
    batch = record(case, "--dtype=float32")

    def work(index):
        parallel.start()
        return learn(case, batch, "--dtype=float32")[0][:1]

    alone = learn(case, batch, "--dtype=float32")[0][:1]  # then AdamW makes whole steps of what is only rounding
    for found in processes.run(3, work, tmp_path):
        for one, other in zip(alone, found, strict=True):
            for learner in one:
                assert apart(one[learner], other[learner]) < 1e-5


# --- whole runs

ARGS = (
    "train magrpo --env probe/two-turn-v0 --protocol games:Spread --model tiny --steps 4 --rows_per_step 3 --checkpoint-every 2 --eval-every 2 "
    "--eval-episodes 4 --eval-rows 2 --samples-every 2 --trackers [] --output run"
).split()


def lines(run, name="metrics.jsonl"):
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def assert_close(run, other):
    assert lines(run, "samples.jsonl") == lines(other, "samples.jsonl")  # every token that was sampled
    for one, two in zip(lines(run), lines(other), strict=True):
        assert one.keys() == two.keys()
        for name, value in one.items():
            near = 1e-6 if name.endswith("logprob_gap") else 1e-7  # the gap is nothing but rounding
            assert value == (pytest.approx(two[name], rel=1e-5, abs=near) if type(value) is float else two[name]), name
    assert complete(run)[-1].name == complete(other)[-1].name
    assert len(lines(run, "timing.jsonl")) == len(lines(other, "timing.jsonl"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    assert processes.cli(1, ARGS, folder) == [0], processes.said(folder)
    return folder / "run"


@pytest.mark.parametrize("size", [2, 3])
def test_a_run_on_several_processes_is_the_run_on_one(size, alone, tmp_path):
    trackers = ["--trackers", "[tensorboard]"] if size == 2 else []
    assert processes.cli(size, [*ARGS, *trackers], tmp_path) == [0] * size, processes.said(tmp_path)
    assert_close(tmp_path / "run", alone)
    assert [p.name for p in complete(tmp_path / "run")] == [p.name for p in complete(alone)]
    assert len(list((tmp_path / "run" / "events").glob("events.out*"))) == len(trackers) / 2
    told = [(tmp_path / f"output-{index}.txt").read_text() for index in range(size)]
    assert told[1:] == [""] * (size - 1)
    for once in ("run: run", "step 1/4", "held-out score at step 4", "Plot: run"):
        assert told[0].count(once) == 1, told[0]
    assert f"{size} processes" in told[0]


@pytest.mark.parametrize(("sizes", "number"), [((1, 2), signal.SIGINT), ((2, 1), signal.SIGTERM)])
def test_a_signal_to_one_process_saves_all_and_any_number_goes_on(sizes, number, alone, tmp_path):
    before, after = sizes

    def interrupt(index):
        if index == before - 1:
            on_call(trainer, "collect", 3, lambda: os.kill(os.getpid(), number))

    assert processes.cli(before, ARGS, tmp_path, interrupt) == [130] * before, processes.said(tmp_path)
    assert processes.said(tmp_path).count("Stopped after step 3 of 4, all saved. Go on with: llm-marl train --res") == 1
    assert complete(tmp_path / "run")[-1].name == "step-000003"
    assert processes.cli(after, ["train", "--resume", "run"], tmp_path) == [0] * after, processes.said(tmp_path)
    assert_close(tmp_path / "run", alone)


def test_an_evaluation_is_divided_too(tmp_path):
    """Five rows on two and on three processes, at most two at once; two rows on three; each row once."""
    starts = [Start(i) for i in range(5)]

    def work(index):
        parallel.start()
        found, rows = [], []
        for number in (5, 2):
            policy = Drawn()
            policies = dict.fromkeys(Fates.possible_agents, policy)
            found.append(evaluate.evaluate(policies, Fates, starts[:number], seed=4, episodes=3, at_once=2).summary())
            rows.append({r.messages[0]["content"] for r in policy.asked if r.num_samples == 3})
        return found, rows

    ((expected, everything),) = processes.run(1, work, tmp_path)
    for size in (2, 3):
        found = processes.run(size, work, tmp_path)
        assert all(summaries == expected for summaries, _ in found)
        for which, rows in enumerate(everything):
            shares = [own[which] for _, own in found]
            assert set().union(*shares) == rows and sum(map(len, shares)) == len(rows)
            assert max(map(len, shares)) < len(rows)


# --- failures


def once(folder, text):
    told = processes.said(folder)
    assert told.count(text) == 1, told
    return told


def test_fewer_rows_than_processes(tmp_path):
    assert processes.cli(2, [*ARGS, "--rows_per_step", "1"], tmp_path) == [2, 2]
    told = once(tmp_path, "rows_per_step=1: the rows of a step are divided among all processes, and there are 2.")
    assert "--rows_per_step 2 or more, or start fewer processes" in " ".join(told.split())
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_with_a_command_is_said_once(tmp_path):
    for args, text in (
        ([*ARGS, "--stepz", "3"], "stepz"),
        (["train", "magrpoo"], "Did you mean 'magrpo'"),
        (["train", "--resume", "nowhere"], "holds no run"),
        (["eval", "run"], "llm-marl eval is one process"),
    ):
        assert processes.cli(2, args, tmp_path) == [2, 2]
        told = once(tmp_path, "llm-marl: error:")
        assert text in told and "Traceback" not in told


def in_process(number, owner, name, call, act):
    return lambda index: on_call(owner, name, call, act) if index == number else None


def raising(error):
    def act():
        raise error

    return act


@pytest.mark.parametrize(
    ("number", "where", "error", "code"),
    [
        (0, (trainer, "collect", 2), DataError("row 7 is broken"), 2),
        (1, (trainer, "collect", 2), DataError("row 7 is broken"), 2),
        (1, (trainer, "evaluate", 2), OSError("the disk is on fire"), 1),
        (1, (Optimizers, "step", 3), DataError("a broken optimiser"), 2),
        (1, (runs, "build_policies", 1), ConfigError("no such model here"), 2),
    ],
)
def test_an_error_of_one_process_ends_all_and_is_said_once(number, where, error, code, tmp_path):
    assert processes.cli(2, ARGS, tmp_path, in_process(number, *where, raising(error))) == [code, code]
    told = once(tmp_path, f"llm-marl: error: {error}")
    assert "Traceback" not in told


def test_a_fault_of_the_program_shows_where_it_happened(tmp_path):
    assert 0 not in processes.cli(2, ARGS, tmp_path, in_process(1, trainer, "collect", 2, raising(KeyError("lost"))))
    main, other = ((tmp_path / f"output-{index}.txt").read_text() for index in (0, 1))
    assert main.count("llm-marl: error: Process 1 failed: KeyError: 'lost'") == 1 and "Traceback" not in main
    assert "Traceback" in other and "KeyError: 'lost'" in other


def test_a_disk_that_is_full(tmp_path):
    full = in_process(0, checkpoint, "flush", 5, raising(OSError(28, "No space left on device")))
    assert processes.cli(2, ARGS, tmp_path, full) == [1, 1]
    once(tmp_path, "could not be written")
    assert processes.cli(2, ["train", "--resume", "run"], tmp_path) == [0, 0], processes.said(tmp_path)


@pytest.mark.parametrize("number", [0, 1])
def test_a_gradient_that_is_not_finite(number, tmp_path):
    """One process's share of the loss is NaN: all stop, the weights as they were sampled with are saved, once."""

    def spoil(index):
        if index == number:
            loss = torch.Tensor.backward

            def backward(self, *args, **kwargs):
                loss(self * float("nan"), *args, **kwargs)

            torch.Tensor.backward = backward

    assert processes.cli(2, ARGS, tmp_path, spoil) == [1, 1]
    told = once(tmp_path, "Step 0: the gradient of learner")
    assert "bad-batch-step-000000.npz" in told and (tmp_path / "run" / "bad-batch-step-000000.npz").is_file()
    with np.load(tmp_path / "run" / "bad-batch-step-000000.npz") as saved:
        assert len(saved["starts"]) == 3  # of all processes


@pytest.mark.parametrize("number", [0, 1])
def test_a_process_that_is_killed_ends_the_others(number, tmp_path):
    codes = processes.cli(2, ARGS, tmp_path, in_process(number, trainer, "collect", 2, kill_self))
    assert codes[number] == -signal.SIGKILL and codes[1 - number] == 1
    once(tmp_path, f"llm-marl: error: Process {1 - number} lost the others")
    assert processes.cli(2, ["train", "--resume", "run"], tmp_path) == [0, 0], processes.said(tmp_path)


def test_processes_must_agree(tmp_path):
    def other_weights(index):
        if index == 1:
            original = runs.build_policies

            def build_policies(*args, **kwargs):
                policy, others = original(*args, **kwargs)
                with torch.no_grad():
                    policy.parameters("agent_2")[0][0, 0] += 1e-6
                return policy, others

            runs.build_policies = build_policies

    assert processes.cli(2, ARGS, tmp_path, other_weights) == [2, 2]
    once(tmp_path, "Process 1 differs from process 0 in: weights of agent_2")

    def work(index):
        from llm_marl_baselines import cli

        return cli.main([*ARGS[:-1], f"run-{index}"])

    assert processes.wait(processes.start(2, work, tmp_path)) == [2, 2]
    once(tmp_path, "Process 1 differs from process 0 in: command")


def test_what_cannot_be_told_and_what_cannot_be_copied(tmp_path):
    class Odd(DataError):
        def __init__(self, one, two):
            super().__init__(f"{one}{two}")

    def work(index):
        parallel.start()
        found = []
        for make_ in (
            lambda: (lambda: 0) if index else 0,
            lambda: raising(Odd("a", "b"))() if index else 0,
            lambda: raising(DataError(f"of {index}"))(),
            lambda: parallel.exchange(lambda: 1 / index),
            lambda: index,
        ):
            try:
                found.append(parallel.exchange(make_))
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is looked at
                found.append((type(error).__name__, str(error)))
        return found

    first, second = processes.run(2, work, tmp_path)
    assert first[0] == second[0] and first[0][0] == "ConfigError" and "infos" in first[0][1]
    assert first[1][0] == ProcessError.__name__ and "Process 1 failed: Odd: ab" in first[1][1]
    assert second[1] == ("Odd", "ab")
    assert first[2] == second[2] == ("DataError", "of 0")  # that of the first process, of several
    assert first[3][0] == "ZeroDivisionError" and second[3][0] == ProcessError.__name__  # told once, through both
    assert first[4] == second[4] == [0, 1]


def test_a_process_that_ends_too_early(tmp_path):
    def work(index):
        parallel.start()
        if index:
            return "done"
        with pytest.raises(ProcessLostError, match="process 1 has come to its end"):
            parallel.exchange(lambda: 0)
        return "lost"

    assert processes.run(2, work, tmp_path) == ["lost", "done"]


# --- FSDP

DIVIDED = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}


def fsdp(index):
    os.environ.update(DIVIDED)


def test_divided_layers_give_the_same_gradients(tmp_path):
    """With adapters, a critic, the reference, and a process that has less to do, or nothing."""
    cases = ("magrpo token, KL, clip, epochs", "magrpo one root", "iac head")
    batches = {case: record(case, *(["--rows_per_step=1"] if "one root" in case else [])) for case in cases}

    def work(index):
        fsdp(index)
        parallel.start()
        made = build("iac head")
        whole = sum(p.numel() for p in made.policy._learners["agent_1"].base.model.parameters())
        here = sum(
            (p.to_local() if hasattr(p, "to_local") else p).numel()
            for p in made.policy._learners["agent_1"].base.model.parameters()
        )
        again = ["--gradient_checkpointing=true"]  # layers that are computed once more are gathered for it
        return here / whole, {
            case: learn(case, batch, *(again if case == cases[0] else [])) for case, batch in batches.items()
        }

    found = processes.run(2, work, tmp_path)
    for case in cases:
        alone = learn(case, batches[case])
        for share, divided in found:
            assert share < 0.7  # embeddings and adapters are whole
            gradients, weights, moments, stats = divided[case]
            assert moments == alone[2]
            for one, other in zip([*alone[0], alone[1]], [*gradients, weights], strict=True):
                for learner in one:
                    assert apart(one[learner], other[learner]) < 1e-7, (case, learner)
            for one, other in zip(alone[3], stats, strict=True):
                assert one == pytest.approx(other, rel=1e-7, abs=1e-12)


@pytest.mark.slow
def test_a_run_with_divided_layers_is_the_run_on_one(alone, tmp_path):
    assert processes.cli(2, ARGS, tmp_path, fsdp) == [0, 0], processes.said(tmp_path)
    assert_close(tmp_path / "run", alone)
    assert processes.cli(1, ["eval", "run"], tmp_path) == [0], processes.said(tmp_path)


@pytest.mark.parametrize(
    "where",
    [
        pytest.param((trainer, "collect", 2), marks=pytest.mark.slow),
        pytest.param((Optimizers, "step", 2), marks=pytest.mark.slow),
        (torch.Tensor, "backward", 3),
    ],
)
def test_an_error_among_divided_layers_ends_all(where, tmp_path):
    def sabotage(index):
        fsdp(index)
        in_process(1, *where, raising(DataError("a broken row")))(index)

    assert processes.cli(2, ARGS, tmp_path, sabotage) == [2, 2]
    once(tmp_path, "llm-marl: error: a broken row")


@pytest.mark.parametrize(
    ("args", "environment", "text"),
    [
        (["--sharing", "full"], {}, "FSDP divides frozen base models"),
        ([], {"FSDP_VERSION": "1"}, "Only version 2 of FSDP"),
        ([], {"FSDP_OFFLOAD_PARAMS": "true"}, "fsdp_offload_params"),
    ],
)
def test_what_fsdp_cannot_do_is_refused(args, environment, text, tmp_path):
    def setting(index):
        fsdp(index)
        os.environ.update(environment)

    assert processes.cli(2, [*ARGS, *args], tmp_path, setting) == [2, 2]
    once(tmp_path, text)


# --- launchers


def test_what_launchers_tell():
    there = {"MASTER_ADDR": "host", "MASTER_PORT": "1"}
    assert launchers.num_processes({}) == launchers.num_processes({"WORLD_SIZE": "1"}) == 1
    assert launchers.num_processes({"WORLD_SIZE": "4", "RANK": "0", **there}) == 4
    assert launchers.num_processes({"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "0", **there}) == 3
    with pytest.raises(ConfigError, match="2 processes, but MASTER_ADDR, MASTER_PORT, RANK is not set.*torchrun"):
        launchers.num_processes({"WORLD_SIZE": "2"})
    with pytest.raises(ConfigError, match="has started one.*--multi_gpu"):
        launchers.num_processes({"ACCELERATE_USE_CPU": "True", **there})
    assert launchers.num_processes({"ACCELERATE_USE_CPU": "True"}) == 1  # one was asked for


def test_the_command_is_handed_to_the_launcher_that_starts_all():
    command = (
        "python /usr/bin/accelerate launch --cpu --num_processes 2 -m llm_marl_baselines train magrpo --cpu".split()
    )
    given_ = launchers.accelerate_arguments(command)
    assert given_ == command[3:]
    wanted = "--multi_gpu --num_processes 2 -m llm_marl_baselines train magrpo --cpu".split()
    assert launchers.for_all(given_) == wanted
    for other in ("bash -c accelerate", "python -m llm_marl_baselines train", "accelerate config"):
        assert launchers.accelerate_arguments(other.split()) is None
    assert launchers.accelerate_arguments("python -m accelerate.commands.launch x.py".split()) == ["x.py"]
    assert launchers.accelerate_arguments("/bin/python /bin/accelerate-launch x.py".split()) == ["x.py"]


FILES = sorted((Path(__file__).parents[2] / "docs" / "accelerate").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_accelerate_reads_our_files(path):
    from accelerate.commands.config.config_args import load_config_from_file

    read = load_config_from_file(str(path))
    assert read.num_processes > 1 and read.num_processes % read.num_machines == 0
    assert str(read.mixed_precision) == "no"
    if path.stem == "fsdp":
        assert read.fsdp_config["fsdp_version"] == 2
    assert f"accelerate/{path.name}" in (path.parents[1] / "scaling.md").read_text()


COMMAND = "-m llm_marl_baselines train magrpo --env probe/same-word-v0 --model tiny --steps 3 --trackers []".split()


def launch(launcher, folder, *args):
    """What a launcher's own command prints, and its exit code. Each process imports everything anew."""
    done = subprocess.run(
        [Path(sys.executable).parent / launcher[0], *launcher[1:], *COMMAND, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        "accelerate launch --cpu --num_processes 2",
        *(f"accelerate launch --config_file {path} --num_processes 2" for path in FILES if path.stem != "machines"),
        "torchrun --nproc_per_node 2",
    ],
)
def test_launchers_start_two(launcher, tmp_path):
    code, told = launch(launcher.split(), tmp_path, "--output", "run")
    assert code == 0, told
    assert told.count("2 processes") == told.count("step 3/3") == told.count("Plot: run") == 1, told
    code, told = launch(launcher.split(), tmp_path, "--output", "other", "--rows_per_step", "1")
    assert code == 1 and told.count("llm-marl: error: rows_per_step=1") == 1, told


@pytest.mark.slow
def test_two_launchers_as_two_machines(tmp_path):
    machines = next(path for path in FILES if path.stem == "machines")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = f"accelerate launch --config_file {machines} --num_processes 2 --main_process_ip 127.0.0.1"
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(
                lambda rank: launch(
                    [*own.split(), "--main_process_port", str(port), "--machine_rank", str(rank)],
                    tmp_path,
                    *("--output", "run"),
                ),
                (0, 1),
            )
        )
    assert [code for code, _ in found] == [0, 0], found
    assert "2 processes" in found[0][1] and "step 3/3" in found[0][1] and "step" not in found[1][1]

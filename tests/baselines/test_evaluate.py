"""Evaluation: known returns, and everything else that is measured of an episode."""

import numpy as np
import pytest

from llm_marl_baselines.evaluate import evaluate, max_return
from llm_marl_baselines.plan import Start
from llm_marl_baselines.policies.base import Response
from llm_marl_baselines.policies.scripted import Scripted
from llm_marl_baselines.response_time import measure
from llm_marl_envs import CollaborationEnv, Score, Task, make
from llm_marl_envs.datasets import load_rows
from llm_marl_envs.wrappers import wrap


class Script:
    """Answers from a table (agent, turn) -> text; sampled answers may vary by seed."""

    def __init__(self, table, wrong_share=0.0):
        self.table, self.wrong = table, wrong_share

    def generate(self, requests, *, seed, greedy=False):
        rng = np.random.default_rng(seed)
        answers = []
        for r in requests:
            right = self.table[r.agent, len(r.messages) // 2]
            wrong = 0 if greedy else self.wrong
            texts = [right if rng.random() >= wrong else "?" for _ in range(r.num_samples)]
            answers.append([Response(t, t, token_ids=np.zeros(3, np.int64)) for t in texts])
        return answers


RIGHT = {("agent_1", 0): "B", ("agent_2", 0): "D", ("agent_1", 1): "C", ("agent_2", 1): "A"}


def run(script, **kwargs):
    policies = dict.fromkeys(["agent_1", "agent_2"], script)
    starts = [Start(i) for i in range(kwargs.pop("rows", 3))]
    return evaluate(policies, lambda: make("probe/two-turn-v0"), starts, seed=1, **kwargs)


def test_a_perfect_script_earns_the_optimum():
    found = run(Script(RIGHT), episodes=5)
    assert found.scores.tolist() == [[1.0] * 5] * 3
    assert found.returns.tolist() == [[1.0] * 5] * 3
    assert found.terms["right"].tolist() == [[1.0] * 5] * 3
    assert found.lengths.tolist() == [[12.0] * 5] * 3  # 3 tokens x 2 agents x 2 turns
    summary = found.summary()
    assert (summary["score"], summary["score_low"], summary["score_high"], summary["percent"]) == (1, 1, 1, 100)


def test_greedy_plays_each_row_once():
    found = run(Script(RIGHT, wrong_share=1.0), episodes=5, greedy=True)
    assert found.scores.tolist() == [[1.0]] * 3
    assert [len(t["turns"]) for t in found.transcripts] == [2, 2, 2]
    assert found.transcripts[0]["turns"][1]["responses"] == {"agent_1": "C", "agent_2": "A"}


def test_rows_come_in_order_however_many_are_played_at_once():
    script = Script(RIGHT, wrong_share=0.4)
    posts = lambda: make("probe/two-turn-v0")  # noqa: E731
    policies = dict.fromkeys(["agent_1", "agent_2"], script)
    for at_once in (1, 2, 8):
        found = evaluate(policies, posts, [Start(i) for i in range(5)], seed=4, episodes=3, at_once=at_once)
        assert found.scores.shape == (5, 3)
        assert len(found.transcripts) == 15
        scores = [t["turns"][-1]["score"] for t in found.transcripts]
        assert scores == found.scores.reshape(-1).tolist()


def test_the_same_seed_gives_the_same_evaluation():
    script = Script(RIGHT, wrong_share=0.5)
    assert run(script, episodes=4).scores.tolist() == run(script, episodes=4).scores.tolist()


# -- what is measured of an episode -------------------------------------------------------------------------------------


class Counting(Task):
    """A task of two agents whose score is the share of tests passed: the writer's letters a, out of four."""

    name = "toys/counting"
    agents = ("writer", "reader")
    max_terms = {"tests": 1.0}
    can_finish_early = True

    def prompt(self, row, agent):
        return f"{agent}, row {row['id']}"

    def score(self, row, responses):
        passed = min(responses["writer"].count("a"), 4)
        details = {"passed": passed, "total": 4}
        return Score.of({"tests": passed / 4}, details=details, solved=passed == 4)


ROWS = [{"id": "easy"}, {"id": "hard"}]


def counting(**kwargs):
    return CollaborationEnv(Counting(), load_rows(ROWS), **{"turn_reward": "sum", **kwargs})


class Cycle:
    """Each agent goes through its answers in turn; a response has a token for each letter, and is cut at 3."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, dict.fromkeys(answers, 0)

    def generate(self, requests, *, seed, greedy=False):
        given = []
        for r in requests:
            texts = []
            for _ in range(r.num_samples):
                texts.append(self.answers[r.agent][self.asked[r.agent] % len(self.answers[r.agent])])
                self.asked[r.agent] += 1
            given.append([Response(t, token_ids=np.zeros(len(t), np.int64), finished=len(t) < 3) for t in texts])
        return given


def count_a(episodes=4, num_turns=1, **kwargs):
    policy = Cycle(writer=["aaaa", "aa", "", "a", "aa", "aa", "", ""], reader=["r"])
    starts = [Start(0, {"index": i}) for i in range(2)]
    make_env = lambda: counting(num_turns=num_turns, **kwargs)  # noqa: E731
    return evaluate({"writer": policy, "reader": policy}, make_env, starts, seed=0, episodes=episodes)


def test_every_column_of_an_episode():
    found = count_a()
    assert list(found.rows) == ["easy", "hard"]
    assert found.scores.tolist() == [[1.0, 0.5, 0.0, 0.25], [0.5, 0.5, 0.0, 0.0]]
    assert found.tokens["writer"].tolist() == [[4, 2, 0, 1], [2, 2, 0, 0]]
    assert found.tokens["reader"].tolist() == [[1] * 4] * 2
    assert found.lengths.tolist() == [[5, 3, 1, 2], [3, 3, 1, 1]]
    assert found.cut.tolist() == [[0.5, 0, 0, 0], [0, 0, 0, 0]]
    assert found.passed.tolist() == [[4, 2, 0, 1], [2, 2, 0, 0]] and found.total.tolist() == [[4] * 4] * 2
    assert found.steps.tolist() == [[1] * 4] * 2
    assert found.seconds > 0
    assert found.last_texts()["writer"] == [["aaaa", "aa", "", "a"], ["aa", "aa", "", ""]]
    row = found.by_row()["easy"]
    assert row["score"] == [1.0, 0.5, 0.0, 0.25] and row["finished"] == [False, True, True, True]
    assert row["tokens/writer"] == [4, 2, 0, 1] and row["passed"] == [4, 2, 0, 1] and row["term/tests"] == row["score"]


def test_pass_and_accuracy_at_k():
    summary = count_a().summary()
    assert summary["pass@1"] == pytest.approx(1 / 8) and summary["pass@2"] == pytest.approx((3 / 6 + 0) / 2)
    assert summary["accuracy@1"] == pytest.approx((1.75 / 4 + 1 / 4) / 2) == summary["score"]
    # Best of two: of the six pairs of the first row 1, 1, 1, .5, .5, .25; of the second five hold a .5.
    assert summary["accuracy@2"] == pytest.approx((4.25 / 6 + 0.5 * 5 / 6) / 2)
    assert "pass@5" not in summary and "accuracy@4" not in summary


def test_environments_without_tests_have_no_pass_at_k():
    assert not [name for name in run(Script(RIGHT), episodes=2).summary() if "@" in name]


def test_turns_after_the_first_count_where_an_episode_goes_on():
    found = count_a(episodes=2, num_turns=2)
    # Turn 1: aaaa solves row easy; the other three go on with the texts that come next: aa, aa, "".
    assert found.steps.tolist() == [[1, 2], [2, 2]]
    assert found.returns.tolist() == [[1.0, 1.0], [0.5, 0.25]]
    assert found.scores.tolist() == [[1.0, 0.5], [0.5, 0.0]]
    assert found.tokens["reader"].tolist() == [[1, 2], [2, 2]]


def test_the_summary_holds_each_rows_scores_and_no_times():
    summary = count_a().summary()
    assert summary["row_scores"] == {"easy": [1.0, 0.5, 0.0, 0.25], "hard": [0.5, 0.5, 0.0, 0.0]}
    assert (summary["rows"], summary["episodes"], summary["max_score"]) == (2, 8, 1.0)
    assert summary["tokens/writer"] + summary["tokens/reader"] == summary["tokens"]
    assert not [name for name in summary if "second" in name]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 1.0),
        ({"num_turns": 3, "turn_reward": "sum"}, 3.0),
        ({"num_turns": 3, "turn_reward": "last"}, 1.0),
        ({"num_turns": 3, "turn_reward": "offset"}, None),  # at best 0, of which there are no percents
        ({"num_turns": 1, "turn_reward": "offset"}, 1.0),
        ({"reward_mode": "individual"}, 0.5),
        ({"weights": {"tests": 0.5}}, 0.5),
        ({"weights": {"tests": 0.0}}, None),
    ],
)
def test_the_maximum_of_the_return(arguments, expected):
    assert max_return(counting(**arguments)) == expected


def test_the_maximum_of_one_agent_for_all_roles():
    assert max_return(wrap(counting(), "single")) == 1.0
    assert max_return(wrap(counting(reward_mode="individual"), "single")) == 1.0  # it earns the sum of the parts
    assert max_return(wrap(counting(), "single", joint_reward="sum")) is None


def test_percentages_are_of_score_and_return_each_by_its_own_maximum():
    summary = count_a(num_turns=2).summary()
    assert summary["percent"] == pytest.approx(100 * summary["score"])
    assert summary["return_percent"] == pytest.approx(100 * summary["return"] / 2)
    assert "return_percent" not in count_a(num_turns=2, turn_reward="offset").summary()


def test_rows_are_named_by_their_id_and_else_by_their_seed():
    assert list(run(Script(RIGHT)).rows) == [
        "probe/two-turn, seed 0",
        "probe/two-turn, seed 1",
        "probe/two-turn, seed 2",
    ]
    found = run(Script(RIGHT), rows=1)
    assert len(found.rows) == 1 and "seed" not in found.rows[0]


def test_protocols_are_measured_step_by_step():
    """In a sequence each step asks one agent; the score is that of the last step."""
    policy = Cycle(writer=["aa"], reader=["rrr"])
    make_env = lambda: wrap(counting(), "sequential")  # noqa: E731
    found = evaluate(dict.fromkeys(["writer", "reader"], policy), make_env, [Start(0, {"index": 1})], seed=0)
    assert (found.scores, found.returns, found.steps) == ([[0.5]], [[0.5]], [[2]])
    assert found.cut.tolist() == [[0.5]] and list(found.rows) == ["hard"]
    assert found.passed.tolist() == [[2]]
    assert found.last_texts() == {"writer": [["aa"]], "reader": [["rrr"]]}


def test_what_the_environment_received_is_the_text_that_counts():
    class Thinks(Cycle):
        def generate(self, requests, **kwargs):
            given = super().generate(requests, **kwargs)
            return [[Response(r.text, f"<think>so</think>{r.text}") for r in responses] for responses in given]

    policy = Thinks(writer=["aa"], reader=["r"])
    found = evaluate({"writer": policy, "reader": policy}, counting, [Start(0, {"index": 0})], seed=0)
    assert found.last_texts()["writer"] == [["aa"]]
    assert "<think>" in found.transcripts[0]["turns"][0]["responses"]["writer"]


# -- response times -----------------------------------------------------------------------------------------------------


class Clock:
    """Time that goes on only where a policy answers."""

    now = 0.0

    def perf_counter(self):
        return self.now


class Slow:
    """Takes its time for each agent, by the clock."""

    def __init__(self, clock, **seconds):
        self.clock, self.seconds = clock, seconds

    def generate(self, requests, *, seed, greedy=False):
        assert len(requests) == 1 and requests[0].num_samples == 1 and not greedy
        self.clock.now += self.seconds[requests[0].agent]
        return [[Response("b", token_ids=np.zeros(5, np.int64))]]


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr("llm_marl_baselines.response_time.time", found := Clock())
    return found


def test_response_times_are_of_single_agents_and_their_sum_and_maximum(clock):
    policy = Slow(clock, writer=2.0, reader=5.0)
    policies = {"writer": policy, "reader": policy}  # one object for both, which an evaluation asks together
    starts = [Start(0, {"index": i}) for i in range(2)]
    found = measure(policies, lambda: counting(num_turns=2), starts, seed=0, episodes=3)
    assert found.agents["writer"].tolist() == [4.0] * 3 and found.agents["reader"].tolist() == [10.0] * 3
    assert found.total.tolist() == [14.0] * 3 and found.slowest.tolist() == [10.0] * 3
    told = found.as_dict()
    assert told["episodes"] == 3 and told["sum"] == {"value": 14.0, "low": 14.0, "high": 14.0}
    assert told["maximum"]["value"] == 10.0 and told["agent/writer"]["value"] == 4.0
    assert told["tokens_per_s"] == pytest.approx(20 / 14)
    assert told["by_episode"]["sum"] == [14.0] * 3


def test_the_maximum_is_taken_turn_by_turn(clock):
    """Each agent is the slow one in one of the turns, so that the maximum is more than either's own time."""
    policies = {"writer": Slow(clock, writer=1.0), "reader": Slow(clock, reader=3.0)}
    original = policies["writer"].generate

    def second_turn_is_slow(requests, **kwargs):
        policies["writer"].seconds["writer"] = 1.0 if len(requests[0].messages) == 1 else 7.0
        return original(requests, **kwargs)

    policies["writer"].generate = second_turn_is_slow
    found = measure(policies, lambda: counting(num_turns=2), [Start(0, {"index": 0})], seed=0, episodes=1)
    assert (found.total, found.slowest) == ([14.0], [10.0])  # (1 + 3) + (7 + 3), 3 + 7


def test_who_answers_one_after_another_gains_nothing_from_a_second_machine(clock):
    policy = Slow(clock, writer=1.0, reader=2.0)
    make_env = lambda: wrap(counting(), "sequential")  # noqa: E731
    found = measure(dict.fromkeys(["writer", "reader"], policy), make_env, [Start(0, {"index": 0})], seed=0, episodes=1)
    assert (found.total, found.slowest) == ([3.0], [3.0])


# -- code ---------------------------------------------------------------------------------------------------------------


def test_code_is_measured_by_its_tests():
    """Through the real sandbox: of four programs two pass all tests, one passes some, one is no program."""
    from coding_rows import ALMOST, COOP_ROWS, NOTHING, SOLVED  # noqa: PLC0415

    answers = {agent: [SOLVED[agent], ALMOST[agent], NOTHING[agent], SOLVED[agent]] for agent in SOLVED}
    turns = dict.fromkeys(answers, 0)

    def answer(observation, agent):
        turns[agent] += 1
        return answers[agent][turns[agent] - 1]

    policy = Scripted(answer)
    make_env = lambda: make("coding/coop-humaneval-v0", data=COOP_ROWS, split="train")  # noqa: E731
    found = evaluate(dict.fromkeys(answers, policy), make_env, [Start(0, {"index": 0})], seed=0, episodes=4)
    total = int(found.total[0, 0])
    assert found.passed.tolist() == [[4, 2, 0, 4]] and total == 4
    summary = found.summary()
    assert summary["pass@1"] == 0.5 and summary["pass@2"] == pytest.approx(5 / 6)
    assert summary["accuracy@1"] == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert summary["percent"] == pytest.approx(100 * summary["score"] / 4)

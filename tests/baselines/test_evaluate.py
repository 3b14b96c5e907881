"""Evaluation: known returns, and intervals that cover what they claim."""

import numpy as np
import pytest

from llm_marl_baselines.evaluate import bootstrap, evaluate
from llm_marl_baselines.plan import Start
from llm_marl_baselines.policies.base import Response
from llm_marl_envs import make


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


def test_the_interval_covers_the_mean_about_95_times_in_100():
    rng = np.random.default_rng(0)
    hits = 0
    for i in range(200):
        interval = bootstrap(rng.normal(5.0, 2.0, size=(40, 3)), seed=i, resamples=400)
        hits += interval.low <= 5.0 <= interval.high
    assert 178 <= hits <= 199


def test_rows_are_resampled_not_episodes():
    # Two rows, a hundred equal episodes each: the truth about rows stays as uncertain as two numbers are.
    values = np.repeat([[0.0], [1.0]], 100, axis=1)
    interval = bootstrap(values)
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)


def test_one_row_resamples_its_episodes():
    interval = bootstrap(np.array([[0.0, 1.0] * 32]))
    assert interval.low < 0.45 < 0.55 < interval.high
    assert bootstrap(np.array([[2.0]])).low == pytest.approx(2.0)

"""Metrics: ``evaluate.Metric`` classes that work without a network, and known answers."""

import subprocess
import sys

import numpy as np
import pytest

from llm_marl_baselines.metrics import METRICS, measure_texts
from llm_marl_envs.errors import ConfigError, MissingDependencyError, UnknownNameError

evaluate = pytest.importorskip("evaluate")
pytest.importorskip("rouge_score")


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """Any connection would fail the test; and nothing may be left in the user's cache."""
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("a metric asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_they_are_metrics_of_evaluate():
    from llm_marl_baselines.metrics import scores

    for metric in (*(METRICS.resolve(name) for name in METRICS), scores.Return, scores.PassAtK, scores.AccuracyAtK):
        made = metric()
        assert isinstance(made, evaluate.Metric) and made.description
        assert "predictions" in made.features


def test_rouge_is_known():
    rouge = METRICS.resolve("rouge")()
    found = rouge.compute(predictions=["the cat sat"], references=["the cat sat on the mat"])
    # All 3 words of 6, both pairs of 5: F = 2 p r / (p + r) with p = 1.
    assert found["rouge1"] == pytest.approx(2 * 0.5 / 1.5) and found["rouge2"] == pytest.approx(2 * 0.4 / 1.4)
    assert found["rougeL"] == found["rouge1"]
    assert rouge.compute(predictions=["a", "b"], references=["a", "a"])["rouge1"] == 0.5
    assert rouge.compute(predictions=["running"], references=["run"])["rouge1"] == 0.0
    assert rouge.compute(predictions=["running"], references=["run"], use_stemmer=True)["rouge1"] == 1.0


def test_lengths_are_known():
    found = METRICS.resolve("lengths")().compute(predictions=["two words", ""])
    assert found == {"words": 1.0, "characters": 4.5, "empty": 0.5}


def test_returns_have_intervals_and_percentages():
    from llm_marl_baselines.metrics.scores import Return

    found = Return().compute(predictions=[[0.0, 0.0], [1.0, 1.0]], maximum=4.0)
    assert found == {"return": 0.5, "return_low": 0.0, "return_high": 1.0, "percent": 12.5}
    assert "percent" not in Return().compute(predictions=[[1.0]])
    with pytest.raises(ConfigError, match="maximum must be above 0, not 0"):
        Return().compute(predictions=[[1.0]], maximum=0)
    with pytest.raises(ConfigError, match="as many samples; there are rows of"):
        Return().compute(predictions=[[1.0], [1.0, 2.0]])


def test_pass_and_accuracy_at_k_are_known():
    from llm_marl_baselines.metrics.scores import AccuracyAtK, PassAtK

    assert PassAtK().compute(predictions=[[True, False], [False, False]]) == {"pass@1": 0.25, "pass@2": 0.5}
    found = AccuracyAtK().compute(predictions=[[1.0, 0.5, 0.0], [0.0, 0.0, 0.0]], k=[1, 3])
    assert found == pytest.approx({"accuracy@1": 0.25, "accuracy@3": 0.5})
    with pytest.raises(ConfigError, match="k must be a whole number from 1 to the 2 samples"):
        PassAtK().compute(predictions=[[True, False]], k=[5])


def test_data_can_be_added_in_batches():
    rouge = METRICS.resolve("rouge")()
    rouge.add_batch(predictions=["a"], references=["a"])
    rouge.add(prediction="b", reference="a")
    assert rouge.compute()["rouge1"] == 0.5


def test_texts_are_measured_row_by_row_for_each_agent():
    texts = {"summarizer": [["a b", "c"], ["d", "d"]], "elaborator": [["x", "x"], ["y", "y"]]}
    found = measure_texts("rouge", texts, ["a b", "d"])
    assert found["rouge/summarizer/rouge1"].tolist() == [[0.5], [1.0]]
    assert found["rouge/elaborator/rougeL"].tolist() == [[0.0], [0.0]]
    assert measure_texts("lengths", texts, None)["lengths/summarizer/words"].tolist() == [[1.5], [1.0]]


def test_a_metric_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(
        "from llm_marl_baselines.metrics.base import OfflineMetric\n"
        "class Questions(OfflineMetric):\n"
        "    columns = {'predictions': 'string'}\n"
        "    def _compute(self, predictions):\n"
        "        return {'share': sum('?' in p for p in predictions) / len(predictions)}\n"
        "class Words(Questions):\n"
        "    def _compute(self, predictions):\n"
        "        return {'all': predictions}\n"
        "class Numbers(Questions):\n"
        "    columns = {'scores': 'float64'}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = measure_texts("theirs:Questions", {"a": [["what?", "no"]]}, None)
    assert {name: values.tolist() for name, values in found.items()} == {"Questions/a/share": [[0.5]]}
    with pytest.raises(ConfigError, match="gives all="):
        measure_texts("theirs:Words", {"a": [["x"]]}, None)
    with pytest.raises(ConfigError, match=r"takes \['scores'\]; one for --metrics takes predictions"):
        measure_texts("theirs:Numbers", {"a": [["x"]]}, None)


def test_errors_name_the_metric_and_the_remedy():
    with pytest.raises(UnknownNameError, match="Unknown metric 'rogue'. Did you mean 'rouge'"):
        measure_texts("rogue", {"a": [["x"]]}, None)
    with pytest.raises(
        ConfigError, match="'rouge' needs a reference text for each row, and there is none: name its field with --ref"
    ):
        measure_texts("rouge", {"a": [["x"]]}, None)


@pytest.mark.parametrize("missing", ["evaluate", "datasets", "rouge_score"])
def test_without_the_extra_the_error_gives_the_command(monkeypatch, missing):
    for name in [
        name
        for name in sys.modules
        if name.partition(".")[0] == missing or name.startswith("llm_marl_baselines.metrics.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "rouge_score":
        monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'llm-marl-baselines\[metrics\]'"):
        measure_texts("rouge", {"a": [["x"]]}, ["x"])


def test_an_evaluation_imports_no_metrics_of_texts():
    """The import of ``evaluate`` takes seconds; the command line must not pay them unless it is asked for texts."""
    code = "import sys, llm_marl_baselines.commands.evaluation, llm_marl_baselines.metrics; print('evaluate' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_values_are_plain_numbers():
    found = measure_texts("rouge", {"a": [["x"]]}, ["x"])
    assert all(isinstance(values, np.ndarray) and values.shape == (1, 1) for values in found.values())

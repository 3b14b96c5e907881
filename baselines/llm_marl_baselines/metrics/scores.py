"""Metrics of numbers that an environment gives: returns, and tests passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..statistics import best_of_k, bootstrap, samples_at
from .base import OfflineMetric


class Return(OfflineMetric):
    """Mean return with its 95 % bootstrap interval over rows, and its percentage of the maximum.

    ``compute(predictions=[[...], ...], maximum=3.0)``: for each row its episodes' returns, as many in each row.
    """

    description = "Mean return, its 95 % bootstrap interval over rows, and its percentage of the maximum."
    citation = "Efron 1979, Bootstrap Methods: Another Look at the Jackknife"
    inputs = "predictions: for each row a list of returns. maximum: what 100 % is; without it there is no percentage."
    columns = {"predictions": ["float64"]}

    def _compute(self, predictions: Sequence[Sequence[float]], maximum: float | None = None) -> dict[str, Any]:
        interval = bootstrap(_table(predictions))
        found = {"return": interval.value, "return_low": interval.low, "return_high": interval.high}
        if maximum is not None:
            if not maximum > 0:
                raise ConfigError(f"maximum must be above 0, not {maximum}: percentages are of it.")
            found["percent"] = 100 * interval.value / maximum
        return found


class PassAtK(OfflineMetric):
    """pass@k: the probability that at least one of k samples passes all tests, without bias.

    ``compute(predictions=[[1, 0, ...], ...], k=[1, 10])``: for each row whether its samples passed all tests.
    """

    description = "pass@k: the unbiased probability that one of k samples passes all tests."
    citation = "Chen et al. 2021, Evaluating Large Language Models Trained on Code, arXiv 2107.03374"
    inputs = "predictions: for each row a list of booleans, one a sample. k: a list; by default 1, 2, 5, 10 ..."
    columns = {"predictions": ["bool"]}

    def _compute(self, predictions: Sequence[Sequence[bool]], k: Sequence[int] | None = None) -> dict[str, Any]:
        return _best("pass", _table(predictions), k)


class AccuracyAtK(OfflineMetric):
    """accuracy@k: the expected best fraction of tests passed among k samples, without bias; the mean for k = 1.

    ``compute(predictions=[[0.5, 1.0, ...], ...], k=[1, 10])``: for each row its samples' fractions.
    """

    description = "accuracy@k: the unbiased expected best fraction of tests passed among k samples."
    inputs = "predictions: for each row a list of fractions from 0 to 1. k: a list; by default 1, 2, 5, 10 ..."
    columns = {"predictions": ["float64"]}

    def _compute(self, predictions: Sequence[Sequence[float]], k: Sequence[int] | None = None) -> dict[str, Any]:
        return _best("accuracy", _table(predictions), k)


def _best(name: str, table: np.ndarray, k: Sequence[int] | None) -> dict[str, Any]:
    wanted = samples_at(table.shape[1]) if k is None else k
    return {f"{name}@{one}": float(best_of_k(table, one).mean()) for one in wanted}


def _table(rows: Sequence[Sequence[float]]) -> np.ndarray:
    counts = {len(row) for row in rows}
    if len(counts) != 1:
        raise ConfigError(f"Each row needs as many samples; there are rows of {sorted(counts)}.")
    return np.array(rows, dtype=np.float64)

"""Lengths of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import OfflineMetric


class Lengths(OfflineMetric):
    """Mean number of whitespace-separated ``words`` and of ``characters``, and the share of ``empty`` texts."""

    description = "Mean words and characters of texts, and the share that are empty."
    inputs = "predictions: a list of texts."
    columns = {"predictions": "string"}

    def _compute(self, predictions: Sequence[str]) -> dict[str, Any]:
        return {
            "words": float(np.mean([len(text.split()) for text in predictions])),
            "characters": float(np.mean([len(text) for text in predictions])),
            "empty": float(np.mean([not text.strip() for text in predictions])),
        }

"""ROUGE through ``rouge_score``, Google's own implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llm_marl_envs.tables import import_module

from .base import INSTALL, OfflineMetric

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class Rouge(OfflineMetric):
    """The F-measure of overlap with a reference, from 0 to 1: of words (``rouge1``), pairs of words (``rouge2``), the
    longest common subsequence (``rougeL``), and the same by lines (``rougeLsum``).

    Words are lower-cased runs of a-z and 0-9: for other scripts it gives 0. ``use_stemmer=True`` of ``compute`` stems
    English words first.

    Source: Lin 2004, https://aclanthology.org/W04-1013.
    """

    description = "ROUGE: overlap of words, pairs of words and subsequences with a reference text; F-measure, 0 to 1."
    citation = "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries, https://aclanthology.org/W04-1013"
    inputs = "predictions, references: lists of texts of the same length. use_stemmer: stem English words first."
    columns = {"predictions": "string", "references": "string"}

    def __init__(self, *args: Any, **kwargs: Any):
        self._scorers = import_module("rouge_score.rouge_scorer", install=INSTALL)
        super().__init__(*args, **kwargs)

    def _compute(
        self, predictions: Sequence[str], references: Sequence[str], use_stemmer: bool = False
    ) -> dict[str, Any]:
        scorer = self._scorers.RougeScorer(KINDS, use_stemmer=use_stemmer)
        scores = [scorer.score(right, given) for given, right in zip(predictions, references, strict=True)]
        return {kind: float(np.mean([score[kind].fmeasure for score in scores])) for kind in KINDS}

"""What the learners of one base have to sample together."""

from __future__ import annotations

import numpy as np

from . import sampling as sampler
from .base import Response, Sampling
from .prompts import PromptEncoder
from .weights import Learner


class Job:
    """What the learners of one host have to sample: distinct prompts (each with its adapter), rows, and the number of
    the request that each row answers."""

    def __init__(self, learner: Learner):
        self.learner = learner
        self.prompts: dict[tuple[str, tuple[int, ...]], int] = {}
        self.rows: list[sampler.Row] = []
        self.numbers: list[int] = []

    def add(self, number: int, adapter: str, ids: tuple[int, ...], settings: Sampling, seed: int) -> None:
        index = self.prompts.setdefault((adapter, ids), len(self.prompts))
        self.rows.append(sampler.Row(index, settings, seed))
        self.numbers.append(number)

    def run(self, token_budget: int, packed: bool) -> list[sampler.Sampled]:
        """Sample all rows; ``packed``: what prompts of one adapter share is computed once."""
        adapters = [adapter for adapter, _ in self.prompts]
        base = self.learner.base
        with self.learner.together(adapters) as call:
            return sampler.generate(
                self.learner.model,
                [ids for _, ids in self.prompts],
                self.rows,
                eos_ids=base.eos_ids,
                pad_id=base.pad_id,
                token_budget=token_budget,
                call=call,
                kinds=adapters if packed else None,
            )


def response(encoder: PromptEncoder, prompt_ids: np.ndarray, sampled: sampler.Sampled) -> Response:
    text, raw = encoder.decode(prompt_ids.tolist(), sampled.token_ids.tolist())
    return Response(text, raw, prompt_ids, sampled.token_ids, sampled.logprobs, sampled.finished)

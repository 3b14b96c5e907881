"""Evaluation: play held-out rows, and say how sure the numbers are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from .batch import Batch
from .plan import Plan, Start
from .policies.base import Policy
from .rollout import Memory, collect
from .seeding import derive_seed


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, summary: Mapping[str, Any]) -> Interval:
        """The score's interval in what :meth:`Evaluation.summary` gives, and so in a line of metrics.jsonl."""
        return cls(summary["score"], summary["score_low"], summary["score_high"])

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap(values: np.ndarray, *, seed: int = 0, resamples: int = 2000) -> Interval:
    """Mean over rows with its percentile bootstrap interval (Efron 1979). Rows are resampled, not single episodes,
    since episodes of one row are not independent; where there is one row only, its episodes are.

    Args:
        values: (rows, episodes) or (rows,).
        seed: of the resampling.
        resamples: number of bootstrap samples.
    """
    table = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    rows = table.mean(axis=1) if len(table) > 1 else table[0]
    picks = np.random.default_rng(seed).integers(len(rows), size=(resamples, len(rows)))
    low, high = np.percentile(rows[picks].mean(axis=1), [2.5, 97.5])
    return Interval(float(rows.mean()), float(low), float(high))


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found. R rows, E episodes of each.

    Attributes:
        scores: (R, E) raw joint score of an episode's last turn.
        returns: (R, E) sum of an episode's rewards over turns, mean over the agents present.
        terms: name -> (R, E), terms of the last turn's score.
        lengths: (R, E) tokens in an episode's responses, all agents and turns together.
        max_score: the maximum of the score where the environment states one.
        transcripts: (R x E) the episodes in words, row by row.
    """

    scores: np.ndarray
    returns: np.ndarray
    terms: Mapping[str, np.ndarray]
    lengths: np.ndarray
    max_score: float | None
    transcripts: Sequence[Mapping[str, Any]]

    def summary(self) -> dict[str, Any]:
        """Plain JSON values: ``score`` and ``return`` with intervals, share of the maximum, terms."""
        score = bootstrap(self.scores)
        out: dict[str, Any] = {"score": score.mean, "score_low": score.low, "score_high": score.high}
        if self.max_score:
            out["percent"] = 100 * score.mean / self.max_score
        returns = bootstrap(self.returns)
        out |= {"return": returns.mean, "return_low": returns.low, "return_high": returns.high}
        out |= {f"term/{name}": float(values.mean()) for name, values in self.terms.items()}
        out |= {"tokens": float(self.lengths.mean()), "rows": len(self.scores), "episodes": self.scores.size}
        return out


def evaluate(
    policies: Mapping[str, Policy],
    make_env: Callable[[], ParallelEnv],
    starts: Sequence[Start],
    *,
    seed: int,
    episodes: int = 1,
    greedy: bool = False,
    memory: Memory | None = None,
    at_once: int = 16,
    executor: Executor | None = None,
) -> Evaluation:
    """Play ``episodes`` independent episodes from each start (one if greedy) and score them.

    Args:
        policies: who answers for each agent.
        make_env: builds the environment with the held-out rows.
        starts: (R) the rows.
        seed: of the sampling; the same seed gives the same evaluation.
        at_once: rows whose episodes are played together.
        executor: runs scores concurrently where the environments are ours.
    """
    episodes = 1 if greedy else episodes
    plan = Plan(episodes, "chains", max_joint_actions=10**9)
    parts = []
    for i in range(0, len(starts), at_once):
        chunk = starts[i : i + at_once]
        batch = collect(
            policies,
            make_env,
            chunk,
            plan,
            seed=derive_seed(seed, i),
            greedy=greedy,
            memory=memory,
            executor=executor,
        )
        parts.append(_measure(batch, len(chunk), episodes))
    env = make_env()
    names = list(dict.fromkeys(name for part in parts for name in part["terms"]))

    def joined(key: str, term: str | None = None) -> np.ndarray:
        values = [p[key] if term is None else p[key].get(term, np.zeros(len(p["scores"]))) for p in parts]
        return np.concatenate(values).reshape(len(starts), episodes)

    return Evaluation(
        scores=joined("scores"),
        returns=joined("returns"),
        terms={name: joined("terms", name) for name in names},
        lengths=joined("lengths"),
        max_score=getattr(env.unwrapped, "max_score", None),
        transcripts=[t for p in parts for t in p["transcripts"]],
    )


def _measure(batch: Batch, rows: int, episodes: int) -> dict[str, Any]:
    """Everything of each episode, in order of (row, episode)."""
    raw = batch.scores
    paid = np.average(batch.rewards, axis=1, weights=batch.present)
    paths = [episode_steps(batch, k) for k in np.flatnonzero(batch.terminated | batch.truncated).tolist()]
    paths.sort(key=lambda path: path[0])  # first steps are numbered row by row
    assert len(paths) == rows * episodes
    ends = [path[-1] for path in paths]
    terms = [step_terms(batch, k) for k in ends]
    return {
        "scores": raw[ends],
        "returns": np.array([paid[path].sum() for path in paths]),
        "terms": {n: np.array([t.get(n, 0.0) for t in terms]) for n in dict.fromkeys(n for t in terms for n in t)},
        "lengths": np.array([_tokens(batch, path) for path in paths], dtype=np.float64),
        "transcripts": [transcript(batch, path) for path in paths],
    }


def step_terms(batch: Batch, step: int) -> Mapping[str, float]:
    """The named terms of a step's score, where the environment reports them."""
    return next((info["terms"] for info in batch.infos[step].values() if "terms" in info), {})


def episode_steps(batch: Batch, last: int) -> list[int]:
    """The steps of the episode that ends with step ``last``, from its first."""
    path = [last]
    while (before := int(batch.parent[path[0]])) >= 0:
        path.insert(0, before)
    return path


def transcript(batch: Batch, path: Sequence[int]) -> dict[str, Any]:
    """One episode in words, as a JSON value: what each agent saw and wrote at each turn, and what it earned.

    ``responses`` hold everything that was sampled; ``actions`` what the environment received, where that differs (a
    thinking block was taken out, or the text was cut).
    """
    turns = []
    for k in path:
        node = batch.step_node[k]
        asked = [(a, b) for a, b in zip(batch.agents, batch.step_response[k], strict=True) if b >= 0]
        wrote = {a: batch.responses[b].raw_text or batch.responses[b].text for a, b in asked}
        played = {a: batch.actions[k][a] for a, _ in asked if batch.actions[k][a] != wrote[a]}
        info = next(iter(batch.infos[k].values()), {})
        turns.append(
            {
                "observations": dict(batch.observations[node]),
                "responses": wrote,
                "rewards": dict(zip(batch.agents, batch.rewards[k].tolist(), strict=True)),
                **({"actions": played} if played else {}),
                **({"score": float(info["score"])} if "score" in info else {}),
                **({"terms": {name: float(value) for name, value in info["terms"].items()}} if "terms" in info else {}),
            }
        )
    return {"turns": turns}


def _tokens(batch: Batch, path: Sequence[int]) -> int:
    return sum(len(batch.responses[b].token_ids) for k in path for b in batch.step_response[k] if b >= 0)

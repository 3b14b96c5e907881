"""Evaluation: play held-out rows and measure everything of each episode. ``statistics`` says how sure the means are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from llm_marl_envs import CollaborationEnv

from . import parallel
from .batch import Batch
from .episodes import episode_steps, episode_terms, tests_passed, transcript
from .plan import Plan, Start
from .policies.base import Policy
from .policies.scripted import Function
from .rollout import Memory, collect
from .statistics import best_of_k, bootstrap, samples_at


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found. R rows, E episodes of each; a step is one joint action.

    Attributes:
        rows: (R) the rows' ids.
        scores: (R, E) raw joint score of an episode's last step.
        returns: (R, E) sum of an episode's rewards over steps, mean over the agents present.
        terms: name -> (R, E), terms of the last step's score.
        tokens: agent -> (R, E), tokens in the agent's responses, all steps together (:attr:`Response.num_tokens`).
        cut: (R, E) share of an episode's responses that ``max_new_tokens`` cut.
        steps: (R, E) steps of an episode.
        passed, total: (R, E) tests passed and counted at the last step; None where the environment reports none.
        max_score: the maximum of the score where the environment states one.
        max_return: the maximum of the return where it follows from that and is above 0.
        seconds: wall time of the whole evaluation: sampling, in batches, and scoring.
        transcripts: (R x E) the episodes in words, row by row.
    """

    rows: Sequence[str]
    scores: np.ndarray
    returns: np.ndarray
    terms: Mapping[str, np.ndarray]
    tokens: Mapping[str, np.ndarray]
    cut: np.ndarray
    steps: np.ndarray
    passed: np.ndarray | None
    total: np.ndarray | None
    max_score: float | None
    max_return: float | None
    seconds: float
    transcripts: Sequence[Mapping[str, Any]]

    @property
    def lengths(self) -> np.ndarray:
        """(R, E) tokens in an episode's responses, all agents and steps together."""
        return np.sum(list(self.tokens.values()), axis=0)

    def quantities(self) -> dict[str, np.ndarray]:
        """Everything that has a mean: name -> (R, E), or (R, 1) for what is estimated from all episodes of a row.

        ``pass@k`` is the probability that at least one of k episodes passes all tests, ``accuracy@k`` the expected
        best fraction of tests passed among k episodes; both without bias (:func:`statistics.best_of_k`).
        """
        found = {"score": self.scores, "return": self.returns}
        found |= {f"term/{name}": values for name, values in self.terms.items()}
        if self.passed is not None and self.total is not None:
            fractions = self.passed / np.maximum(self.total, 1)
            whole = (self.passed == self.total) & (self.total > 0)
            for name, values in (("pass", whole), ("accuracy", fractions)):
                found |= {f"{name}@{k}": best_of_k(values, k)[:, None] for k in samples_at(self.scores.shape[1])}
        found["tokens"] = self.lengths
        if len(self.tokens) > 1:
            found |= {f"tokens/{agent}": values for agent, values in self.tokens.items()}
        return found | {"cut_share": self.cut, "steps": self.steps}

    def maxima(self) -> dict[str, float]:
        """Of the quantities that are also given as a percentage, what 100 % is."""
        of = {"score": self.max_score, "return": self.max_return}
        return {name: best for name, best in of.items() if best}

    def summary(self) -> dict[str, Any]:
        """Plain JSON values, no times: every quantity, intervals of ``score`` and ``return``, their share of the
        maximum in percent, and ``row_scores``: row id -> its episodes' scores."""
        out: dict[str, Any] = {}
        maxima = self.maxima()
        for name, values in self.quantities().items():
            if name not in ("score", "return"):
                out[name] = float(values.mean())
                continue
            interval = bootstrap(values)
            out |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
            if name in maxima:
                out["percent" if name == "score" else "return_percent"] = 100 * interval.value / maxima[name]
        out |= {"rows": len(self.scores), "episodes": self.scores.size}
        if self.max_score is not None:
            out["max_score"] = self.max_score
        return out | {"row_scores": dict(zip(self.rows, self.scores.tolist(), strict=True))}

    def by_row(self) -> dict[str, dict[str, Any]]:
        """Row id -> what each of its episodes gave, as lists of E: JSON values."""
        columns: dict[str, np.ndarray] = {"score": self.scores, "return": self.returns}
        columns |= {f"term/{name}": values for name, values in self.terms.items()}
        columns |= {f"tokens/{agent}": values for agent, values in self.tokens.items()}
        columns |= {"cut_share": self.cut, "finished": self.cut == 0, "steps": self.steps}
        if self.passed is not None and self.total is not None:
            columns |= {"passed": self.passed, "total": self.total}
        return {row: {name: values[r].tolist() for name, values in columns.items()} for r, row in enumerate(self.rows)}

    def last_texts(self) -> dict[str, list[list[str]]]:
        """Agent -> (R, E) the last text that the agent gave in the episode, as the environment received it."""
        episodes = self.scores.shape[1]
        found: dict[str, list[list[str]]] = {}
        for i, episode in enumerate(self.transcripts):
            for turn in episode["turns"]:
                for agent, text in {**turn["responses"], **turn.get("actions", {})}.items():
                    texts = found.setdefault(agent, [[""] * episodes for _ in self.rows])
                    texts[i // episodes][i % episodes] = text
        return found


def evaluate(
    policies: Mapping[str, Policy | Function],
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
    """Play ``episodes`` independent episodes from each start (one if greedy) and score them. Of several processes each
    plays its block of the starts, and all get the whole evaluation.

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
    began = time.perf_counter()

    def play() -> list[dict[str, Any]]:
        here, found = parallel.block(len(starts)), []
        for i in here[::at_once]:
            chunk = starts[i : min(i + at_once, here.stop)]
            batch = collect(
                policies,
                make_env,
                chunk,
                plan,
                seed=seed,
                first=i,
                greedy=greedy,
                memory=memory,
                executor=executor,
            )
            found.append(_measure(batch, len(chunk), episodes))
        return found

    parts = [part for played in parallel.exchange(play) for part in played]
    seconds = time.perf_counter() - began
    env = make_env()
    shape = (len(starts), episodes)

    def joined(key: str) -> np.ndarray:
        return np.concatenate([part[key] for part in parts]).reshape(shape)

    def by_name(key: str) -> dict[str, np.ndarray]:
        names = dict.fromkeys(name for part in parts for name in part[key])
        no = [np.zeros(len(part["scores"])) for part in parts]
        return {
            name: np.concatenate([part[key].get(name, zeros) for part, zeros in zip(parts, no, strict=True)]).reshape(
                shape
            )
            for name in names
        }

    tested = all(part["passed"] is not None for part in parts)
    return Evaluation(
        rows=[name for name, _ in row_facts(make_env, starts)],
        scores=joined("scores"),
        returns=joined("returns"),
        terms=by_name("terms"),
        tokens=by_name("tokens"),
        cut=joined("cut"),
        steps=joined("steps"),
        passed=joined("passed") if tested else None,
        total=joined("total") if tested else None,
        max_score=getattr(env.unwrapped, "max_score", None),
        max_return=max_return(env),
        seconds=seconds,
        transcripts=[t for p in parts for t in p["transcripts"]],
    )


def max_return(env: ParallelEnv) -> float | None:
    """The largest return of an episode, where it is known and above 0: not for rewards that are offset by the maximum
    (``turn_reward="offset"`` of tasks that can be solved early), whose best return is 0."""
    base = env.unwrapped
    if not isinstance(base, CollaborationEnv) or not base.max_score:
        return None
    if getattr(env, "joint_reward", None) is not None:
        return None  # one agent in the place of all, paid by a rule of its own
    if (optimal := getattr(base.task, "optimal_return", None)) is not None and base.num_turns > 1:
        # A task whose turns cannot all pay the maximum says what the best policy earns.
        return optimal / (len(env.possible_agents) if base.reward_mode == "individual" else 1)
    best = base.max_score / (len(env.possible_agents) if base.reward_mode == "individual" else 1)
    if base.num_turns == 1 or base.turn_reward == "last":
        return best
    if base.turn_reward == "offset" and base.task.can_finish_early:
        return None
    return best * base.num_turns


def row_facts(
    make_env: Callable[[], ParallelEnv], starts: Sequence[Start]
) -> list[tuple[str, Mapping[str, Any] | None]]:
    """The id of each start's row, and the row itself; for environments without rows the seed, and None."""
    env = make_env()
    found: list[tuple[str, Mapping[str, Any] | None]] = []
    for start in starts:
        env.reset(seed=start.seed, options=None if start.options is None else dict(start.options))
        base = env.unwrapped
        row = base.row if isinstance(base, CollaborationEnv) else None
        found.append((f"seed {start.seed}" if row is None else str(row["id"]), row))
    if len({name for name, _ in found}) < len(found):
        # Several starts may share a row: what tells them apart is the seed.
        found = [(f"{name}, seed {start.seed}", row) for (name, row), start in zip(found, starts, strict=True)]
    return found


def _measure(batch: Batch, rows: int, episodes: int) -> dict[str, Any]:
    """Everything of each episode, in order of (row, episode)."""
    raw = batch.scores
    paid = np.average(batch.rewards, axis=1, weights=batch.present)
    paths = [episode_steps(batch, k) for k in np.flatnonzero(batch.terminated | batch.truncated).tolist()]
    paths.sort(key=lambda path: path[0])  # first steps are numbered row by row
    assert len(paths) == rows * episodes
    ends = [path[-1] for path in paths]
    terms = [episode_terms(batch, path) for path in paths]
    tests = [tests_passed(batch, k) for k in ends]
    given = [batch.step_response[path] for path in paths]  # each (steps, agents)
    counts = np.array([r.num_tokens for r in batch.responses] + [0])  # -1, an agent that was not asked, is 0 tokens
    unfinished = np.array([not r.finished for r in batch.responses] + [False])
    return {
        "scores": raw[ends],
        "returns": np.array([paid[path].sum() for path in paths]),
        "terms": {n: np.array([t.get(n, 0.0) for t in terms]) for n in dict.fromkeys(n for t in terms for n in t)},
        "tokens": {
            agent: np.array([counts[b[:, column]].sum() for b in given], dtype=np.float64)
            for column, agent in enumerate(batch.agents)
        },
        "cut": np.array([unfinished[b].sum() / max((b >= 0).sum(), 1) for b in given]),
        "steps": np.array([len(path) for path in paths]),
        "passed": None if None in tests else np.array([t[0] for t in tests if t]),
        "total": None if None in tests else np.array([t[1] for t in tests if t]),
        "transcripts": [transcript(batch, path) for path in paths],
    }

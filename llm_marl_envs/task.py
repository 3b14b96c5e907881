"""What a task is: prompts for the agents and a score for what they wrote. It never sees a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from .errors import ConfigError

Row = TypeVar("Row", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Score:
    """What one joint action earned.

    Attributes:
        total: the joint score. It equals the sum of ``terms``.
        terms: the named parts of the total, in the order in which they are explained.
        per_agent: each agent's own part, for ``reward_mode="individual"``; None where the task defines no split.
        details: measured facts behind the terms (counts, ratios, messages); shown in infos, never summed.
        solved: True if nothing is left to gain, which ends an episode early.
        limits: the largest value of each term; the environment fills it in from ``Task.max_terms``.
        remarks: what a task can say beyond its terms: feedback mode -> lines, which the mode puts after its own. They
            are shown to agents: no hidden tests, no references.
    """

    total: float
    terms: Mapping[str, float]
    per_agent: Mapping[str, float] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    solved: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    remarks: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = {"total": self.total, **self.terms, **(self.per_agent or {})}
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise ConfigError(f"A score must be finite; {name!r} is {value!r} (terms: {dict(self.terms)}).")
        if not math.isclose(whole := float(sum(self.terms.values())), self.total, rel_tol=1e-6, abs_tol=1e-6):
            raise ConfigError(
                f"The total of a score is the sum of its terms; {self.total!r} is not {whole!r}: use Score.of(terms)."
            )

    @classmethod
    def of(cls, terms: Mapping[str, float], **rest: Any) -> Score:
        """A score whose total is the sum of its terms."""
        return cls(total=float(sum(terms.values())), terms=dict(terms), **rest)

    def weighted(self, weights: Mapping[str, float]) -> Score:
        """The same score with some terms multiplied; terms that are not named keep weight 1.

        The split per agent is scaled as the total is, since a task's split need not follow its terms; where the total
        was 0 it becomes an equal share.
        """
        terms = {name: value * weights.get(name, 1.0) for name, value in self.terms.items()}
        limits = {name: value * weights.get(name, 1.0) for name, value in self.limits.items()}
        total = float(sum(terms.values()))
        parts = self.per_agent
        if parts is not None:
            share = total / max(len(parts), 1)
            parts = {a: part * total / self.total if self.total else share for a, part in parts.items()}
        return replace(self, total=total, terms=terms, per_agent=parts, limits=limits)


@dataclass(frozen=True)
class Turn:
    """One turn that was played: what each agent saw, what each answered, what it earned together."""

    observations: Mapping[str, str]
    actions: Mapping[str, str]
    score: Score


Transcript = Sequence[Turn]


class Task(Generic[Row]):
    """Subclass this to add a task; ``docs/extending`` walks through one.

    Attributes:
        name: the id without its version, such as ``"writing/tldr"``.
        agents: the roles, in the fixed order of ``possible_agents``.
        max_terms: the largest value of each term. Their sum is the maximum of the score.
        fields: the columns that a row must have, all non-empty text. Other columns are kept and not checked.
        max_response_length: the longest response in characters that makes sense; None for the environment's own limit.
        can_finish_early: whether ``score`` may return ``solved=True``; it decides what ``turn_reward="offset"`` does.
    """

    name: str = "task"
    agents: tuple[str, ...] = ()
    max_terms: Mapping[str, float] = {}
    fields: tuple[str, ...] = ()
    max_response_length: int | None = None
    can_finish_early: bool = False

    def prompt(self, row: Row, agent: str) -> str:
        """The first observation of ``agent``."""
        raise NotImplementedError

    def score(self, row: Row, responses: Mapping[str, str]) -> Score:
        """Score one joint action. Any text is data: this must not raise on what a model may write."""
        raise NotImplementedError

    def score_turn(self, row: Row, turns: Transcript, responses: Mapping[str, str]) -> Score:
        """Score a turn that may depend on the turns before it. By default it does not."""
        return self.score(row, responses)

    def describe(self, row: Row) -> str:
        """What a centralised critic may know of the row beyond the observations: no hidden tests, no references."""
        return ""

    def max_parts(self) -> Mapping[str, float]:
        """The largest part of each agent under ``reward_mode="individual"``; by default an equal share."""
        share = sum(self.max_terms.values()) / max(len(self.agents), 1)
        return {agent: share for agent in self.agents}

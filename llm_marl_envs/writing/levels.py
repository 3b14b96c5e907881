"""The four-level reward of the writing tasks, and every constant in it.

The agents' texts are c1 and c2, in the order of ``Task.agents``. A level that fails stops: the terms after it stay 0.

=====  ================  ========  ==============================================================================
level  term              maximum   value
=====  ================  ========  ==============================================================================
1      ``length``        0.5       both texts have an allowed number of whitespace words; else the total is 0
2      ``length_ratio``  1.0       plateau over characters(c2) / characters(c1)
3      ``unique_ratio``  0.5       plateau over unique words(c2) / unique words(c1)
4      ``transitions``   0.4       T = min(1, 0.4 + 0.05 (categories - 1)), or 0 without a transition
4      ``jaccard``       0.6       J = min(jaccard, cap) / cap
4      ``grounding``     weight    ``metrics.grounding``; only with ``grounding=`` above 0
=====  ================  ========  ==============================================================================

A plateau is 1 in the best interval, falls linearly to 0 at the edges of the accepted one, and fails beyond them; at an
edge itself the term is 0 and the level passes. Characters are all characters of the response, blanks included.

With all 12 categories T is 0.95, so 2.98 can be reached; percentages are of 3.0, as in the paper, and the stated
maximum of ``transitions`` is 0.4. No score is marked as solved: an episode plays all its turns.

Each agent's own part (``reward_mode="individual"``; parts add up to the total): half of ``length``, ``length_ratio``,
``unique_ratio`` and ``jaccard``, which both texts make together; of ``transitions`` the share of its categories among
those of the texts that are searched (all of it where one text is); of ``grounding`` the share of its own grounding in
the sum of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..tables import did_you_mean
from ..task import Score, Task
from . import metrics

Interval = tuple[float, float]


@dataclass(frozen=True)
class Levels:
    """Constants of the reward. Sources: the peer's public writing environments; FACTS lists them by task.

    Attributes:
        words: allowed number of whitespace words of each text, both ends included.
        ratio_best, ratio_accepted: characters(c2) / characters(c1).
        unique_best, unique_accepted: unique words(c2) / unique words(c1).
        jaccard_cap: overlap beyond which more earns nothing.
        transition_texts: which texts are searched for transitions: 0 is c1, 1 is c2.
        target_words: the length that the prompts ask of each agent: ours, within all intervals.
    """

    words: tuple[int, int]
    ratio_best: Interval
    ratio_accepted: Interval
    unique_best: Interval
    unique_accepted: Interval
    jaccard_cap: float
    transition_texts: tuple[int, ...]
    target_words: tuple[int, int]
    length_points: float = 0.5
    ratio_points: float = 1.0
    unique_points: float = 0.5
    transition_points: float = 0.4
    jaccard_points: float = 0.6
    first_category: float = 0.4
    next_category: float = 0.05

    def __post_init__(self) -> None:
        for name in ("ratio", "unique"):
            best, accepted = getattr(self, f"{name}_best"), getattr(self, f"{name}_accepted")
            if not 0 <= accepted[0] <= best[0] <= best[1] <= accepted[1]:
                raise ConfigError(
                    f"{name}_best {best} must lie within {name}_accepted {accepted}, both from low to high."
                )
        if not (0 <= self.words[0] <= self.words[1] and self.jaccard_cap > 0 and self.transition_texts):
            raise ConfigError(f"words must go from low to high, jaccard_cap be positive, a text be searched: {self}")

    def transition_score(self, categories: int) -> float:
        """T, in [0, 0.95] for the 12 categories there are."""
        return min(1.0, self.first_category + self.next_category * (categories - 1)) if categories else 0.0

    def max_terms(self, grounding: float = 0.0) -> dict[str, float]:
        """Name -> stated maximum of each term, in order."""
        terms = {
            "length": self.length_points,
            "length_ratio": self.ratio_points,
            "unique_ratio": self.unique_points,
            "transitions": self.transition_points,
            "jaccard": self.jaccard_points,
        }
        return {**terms, "grounding": grounding} if grounding else terms

    def reachable(self, grounding: float = 0.0) -> float:
        """The largest total that texts can earn: 2.98 without grounding."""
        lost = 1 - self.transition_score(len(metrics.LEXICON))
        return sum(self.max_terms(grounding).values()) - self.transition_points * lost


def score_levels(
    levels: Levels, agents: Sequence[str], texts: Sequence[str], source: str = "", grounding: float = 0.0
) -> Score:
    """Score the texts of two agents.

    ``Score.details``: ``level`` (the last level reached, 1 to 4), ``words``, ``characters`` and ``unique_words`` by
    agent, ``character_ratio`` and ``unique_ratio`` (0 where the denominator is 0), ``categories`` (names),
    ``jaccard``, and with grounding at level 4 ``grounding`` by agent.
    """
    one, two = texts
    words = [metrics.count_words(t) for t in texts]
    unique = [len(metrics.unique_words(t)) for t in texts]
    found = {i: metrics.transition_categories(texts[i]) for i in levels.transition_texts}
    categories = [c for c in metrics.LEXICON if any(c in f for f in found.values())]
    details: dict[str, Any] = {
        "level": 1,
        "words": dict(zip(agents, words, strict=True)),
        "characters": dict(zip(agents, map(len, texts), strict=True)),
        "unique_words": dict(zip(agents, unique, strict=True)),
        "character_ratio": metrics.ratio(len(two), len(one)),
        "unique_ratio": metrics.ratio(unique[1], unique[0]),
        "categories": categories,
        "jaccard": metrics.jaccard(one, two),
    }
    terms = dict.fromkeys(levels.max_terms(grounding), 0.0)
    halves = (0.5, 0.5)
    shares = dict.fromkeys(terms, halves)

    def done() -> Score:
        # The second part is what the first leaves, so that both add up to the term but for one rounding.
        first = sum(value * shares[name][0] for name, value in terms.items())
        total = float(sum(terms.values()))
        parts = {agents[0]: first, agents[1]: total - first}
        return Score(total, terms, parts, details)

    if not all(levels.words[0] <= n <= levels.words[1] for n in words):
        return done()
    terms["length"] = levels.length_points

    details["level"] = 2
    length = metrics.plateau(details["character_ratio"], levels.ratio_best, levels.ratio_accepted)
    if length is None:
        return done()
    terms["length_ratio"] = levels.ratio_points * length

    details["level"] = 3
    # A c1 without any word token (symbols, emoji) has the ratio 0, which no task accepts.
    vocabulary = metrics.plateau(details["unique_ratio"], levels.unique_best, levels.unique_accepted)
    if vocabulary is None:
        return done()
    terms["unique_ratio"] = levels.unique_points * vocabulary

    details["level"] = 4
    terms["transitions"] = levels.transition_points * levels.transition_score(len(categories))
    shares["transitions"] = _shares([len(found.get(i, ())) for i in (0, 1)])
    terms["jaccard"] = levels.jaccard_points * min(details["jaccard"], levels.jaccard_cap) / levels.jaccard_cap
    if grounding:
        joint, own = metrics.grounding(source, texts)
        terms["grounding"] = grounding * joint
        shares["grounding"] = _shares(own)
        details["grounding"] = dict(zip(agents, own, strict=True))
    return done()


def _shares(amounts: Sequence[float]) -> tuple[float, float]:
    whole = sum(amounts)
    return (amounts[0] / whole, amounts[1] / whole) if whole else (0.5, 0.5)


class WritingTask(Task[Mapping[str, Any]]):
    """A task of two writers with the four-level reward; subclasses add prompts and constants.

    Args:
        levels: a name in ``presets``, or constants of your own.
        grounding: weight of the term ``grounding``; 0 leaves it out.

    Raises:
        ConfigError: an unknown name, or a weight that is negative or not finite.
    """

    presets: Mapping[str, Levels] = {}

    def __init__(self, levels: str | Levels = "paper", grounding: float = 0.0):
        if not isinstance(levels, Levels):
            if levels not in self.presets:
                hint = did_you_mean(str(levels), self.presets)
                raise ConfigError(f"levels={levels!r} is unknown.{hint} Known: {', '.join(self.presets)}.")
            levels = self.presets[levels]
        if isinstance(grounding, bool) or not isinstance(grounding, (int, float)) or not 0 <= grounding < math.inf:
            raise ConfigError(f"grounding={grounding!r} must be a weight: a finite number of at least 0.")
        self.levels = levels
        self.grounding = float(grounding)
        self.max_terms = levels.max_terms(self.grounding)

    def source(self, row: Mapping[str, Any]) -> str:
        """The text that the agents write about."""
        raise NotImplementedError

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        texts = [responses[agent] for agent in self.agents]
        return score_levels(self.levels, self.agents, texts, self.source(row), self.grounding)

    def max_parts(self) -> dict[str, float]:
        """Half of each term, and of ``transitions`` all for an agent whose text is searched for them."""
        half = sum(value for name, value in self.max_terms.items() if name != "transitions") / 2
        searched = self.levels.transition_texts
        return {a: half + (self.max_terms["transitions"] if i in searched else 0.0) for i, a in enumerate(self.agents)}

"""What a batch and its updates say in numbers, for the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .batch import Batch
from .episodes import has_score, step_terms


def means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """For each name the mean over the mappings that have it."""
    names = dict.fromkeys(name for stats in found for name in stats)
    return {name: float(np.mean([stats[name] for stats in found if name in stats])) for name in names}


def measures(batch: Batch, num_turns: int | None = None) -> dict[str, float]:
    """Means over a batch's sampled joint actions and their responses, for the log.

    ``sampled_tokens`` and ``joint_actions`` count everything that was played, baselines included: what the batch cost.
    ``ended_early`` is the share of episodes that ended before ``num_turns``, where that is more than 1.
    """
    sampled = np.flatnonzero(~batch.greedy)
    # Steps inside a turn (a message, the first answer of a sequence) have no score of their own.
    scored = [k for k in sampled.tolist() if has_score(batch, k)]
    scored = scored or sampled.tolist()
    told = [step_terms(batch, k) for k in scored]
    between = [step_terms(batch, k) for k in sampled.tolist() if k not in scored]  # the cost of messages, for one
    own = [batch.responses[b] for b in np.flatnonzero(batch.trained).tolist()]
    ends = sampled[(batch.terminated | batch.truncated)[sampled]]
    found: dict[str, float] = {
        "score": float(batch.scores[scored].mean()),
        "reward": float(batch.rewards[sampled][batch.present[sampled]].mean()),
        **{f"term/{name}": value for name, value in {**_mean_terms(between), **_mean_terms(told)}.items()},
        "joint_actions": len(batch.rewards),
        "sampled_tokens": sum(r.num_tokens for r in batch.responses),
    }
    if own:
        found |= {
            "response_tokens": float(np.mean([r.num_tokens for r in own])),
            "cut_share": float(np.mean([not r.finished for r in own])),
            "clipped_share": float(batch.clipped[batch.trained].mean()),
        }
    missing = [i["missing_sections"] for k in scored for i in batch.infos[k].values() if "missing_sections" in i]
    if missing:
        found["missing_sections"] = float(np.mean(missing))
    if num_turns is not None and num_turns > 1:
        found["ended_early"] = float(np.mean(batch.turn[batch.step_node[ends]] + 1 < num_turns))
    return found


def _mean_terms(told: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each term; one that a score does not name is 0 there."""
    names = dict.fromkeys(name for terms in told for name in terms)
    return {name: float(np.mean([terms.get(name, 0.0) for terms in told])) for name in names}

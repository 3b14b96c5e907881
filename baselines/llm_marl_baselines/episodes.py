"""One step or one episode of a batch, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .batch import Batch


def tests_passed(batch: Batch, step: int) -> tuple[int, int] | None:
    """How many tests passed, and of how many, where an environment says so in ``infos[agent]["details"]``."""
    for info in batch.infos[step].values():
        details = info.get("details")
        if isinstance(details, Mapping) and {"passed", "total"} <= details.keys():
            return int(details["passed"]), int(details["total"])
    return None


def step_terms(batch: Batch, step: int) -> Mapping[str, float]:
    """The named terms of a step's score, where the environment reports them."""
    return next((info["terms"] for info in batch.infos[step].values() if "terms" in info), {})


def has_score(batch: Batch, step: int) -> bool:
    """Whether the environment reports a score of the step. Steps inside a turn of a protocol have none."""
    return any("score" in info for info in batch.infos[step].values())


def episode_terms(batch: Batch, path: Sequence[int]) -> dict[str, float]:
    """The terms of an episode's last score; and where it has one, the sums of what steps without a score name: what
    messages cost."""
    terms = dict(step_terms(batch, path[-1]))
    if has_score(batch, path[-1]):
        for k in path[:-1]:
            for name, value in ({} if has_score(batch, k) else step_terms(batch, k)).items():
                terms[name] = terms.get(name, 0.0) + value
    return terms


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
                **({"missing_sections": int(info["missing_sections"])} if "missing_sections" in info else {}),
            }
        )
    return {"turns": turns}

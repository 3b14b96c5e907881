"""Small tasks and environments for the tests. A module of its own, so that they pickle by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs import CollaborationEnv, Score, Task, load_rows

SOLVED = {"left": "L", "right": "RRRR"}
NOTHING = {"left": "", "right": ""}
ROWS = [{"id": f"r{i}", "text": f"text {i}", "secret": f"hidden-{i}"} for i in range(5)]


class LettersTask(Task[Mapping[str, Any]]):
    """`left` must write an L (worth 1), `right` four R (worth 0.5 each); solved at 3."""

    name = "toy/letters"
    agents = ("left", "right")
    max_terms = {"ell": 1.0, "arr": 2.0}
    fields = ("text",)
    can_finish_early = True

    def prompt(self, row: Mapping[str, Any], agent: str) -> str:
        return f"{agent}: {row['text']}"

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        terms = {"ell": float("L" in responses["left"]), "arr": min(responses["right"].count("R"), 4) / 2}
        parts = {"left": terms["ell"], "right": terms["arr"]}
        solved = sum(terms.values()) == 3.0
        return Score.of(terms, per_agent=parts, details={"length": len(responses["left"])}, solved=solved)

    def describe(self, row: Mapping[str, Any]) -> str:
        return f"About: {row['text']}"

    def max_parts(self) -> Mapping[str, float]:
        return {"left": 1.0, "right": 2.0}


class EndlessTask(LettersTask):
    """The same letters, but never solved before the last turn, and not split by agent."""

    name = "toy/endless"
    can_finish_early = False

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        return Score.of(super().score(row, responses).terms)


def toy(task: Task | None = None, rows: Sequence[Mapping[str, Any]] = ROWS, **kwargs: Any) -> CollaborationEnv:
    task = task or LettersTask()
    return CollaborationEnv(task, load_rows(rows, required=task.fields), **kwargs)


def endless(**kwargs: Any) -> CollaborationEnv:
    return toy(EndlessTask(), **kwargs)


def ten_for_x(row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
    """A score function of a third party: 10 for each agent that wrote an x."""
    return Score.of({f"x_{agent}": 10.0 * ("x" in text) for agent, text in responses.items()})


def shout(row: Mapping[str, Any], transcript: Any, score: Score, agent: str) -> str:
    """A feedback function of a third party."""
    return f"{agent.upper()}! {len(transcript)} turns, {score.total:.1f}"


def advise(question: str) -> str:
    """An expert of a third party."""
    return "RRRR"


def picture(env: Any) -> Any:
    """All that an environment holds of an episode."""
    rng = env.np_random.bit_generator.state
    return list(env.agents), env.row, env.turns, dict(env.observations), env.state() if env.row else None, rng


def play(env: Any, actions: Sequence[Mapping[str, str]], **reset: Any) -> list[Any]:
    """What reset returned and each step until the episode ends or the actions do."""
    seen: list[Any] = [env.reset(**reset)]
    for action in actions:
        if not env.agents:
            break
        seen.append(env.step(action))
    return seen

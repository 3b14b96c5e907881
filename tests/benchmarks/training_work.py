"""The work that ``training.py`` times: posts, rewards, and a game of any number of agents, turns and prompt tokens.

Both sides import this, ours and the peer in an environment of its own, so nothing heavier than ``llm_marl_envs`` is
imported here. Importing it registers ``benchmark/posts-v0`` and ``benchmark/writers-v0``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_marl_envs import CollaborationEnv, Score, Task, load_rows, make, register

FILLER = "The river runs past the old mill and the road. "  # 11 tokens of SmolLM2


def different(responses: Mapping[str, str]) -> float:
    """A reward of up to 0.01 that no two joint responses share. Responses that all earn the same have no advantage;
    our library leaves those out of the update and the peer does not, so equal rewards would hide work."""
    return 0.01 * zlib.crc32("\0".join(responses.values()).encode()) / 2**32


def score(row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
    """The reward of ``writing/tldr-v0``, and ``different`` beside it."""
    global _tldr
    if _tldr is None:
        _tldr = make("writing/tldr-v0").task
    terms = {**_tldr.score(row, responses).terms, "different": different(responses)}
    return Score.of(terms)


_tldr: Task | None = None


def posts(rows: str) -> CollaborationEnv:
    """``writing/tldr-v0`` on the posts of a file, with the reward above."""
    return make("writing/tldr-v0", data=rows, split="train", score="training_work:score")


class Writers(Task):
    """Any number of agents are each asked for a text, and are paid for nothing but being different."""

    name = "benchmark/writers"
    max_terms = {"different": 0.01}

    def __init__(self, agents: int, prompt_tokens: int):
        self.agents = tuple(f"writer{number}" for number in range(1, agents + 1))
        self.filler = FILLER * max(1, (prompt_tokens - 45) // 11)

    def prompt(self, row: Mapping[str, Any], agent: str) -> str:
        return f"{row['id']}. {self.filler}You are {agent}. Go on with the story."

    def score(self, row: Mapping[str, Any], responses: Mapping[str, str]) -> Score:
        return Score.of({"different": different(responses)})


def writers(agents: int = 2, prompt_tokens: int = 100, num_turns: int = 1) -> CollaborationEnv:
    """The game; ``prompt_tokens`` is met to within one sentence, the chat template included."""
    rows = [{"id": f"Story {number}", "split": "train"} for number in range(64)]
    return CollaborationEnv(Writers(agents, prompt_tokens), load_rows(rows, split="train"), num_turns=num_turns)


def read_rows(path: str) -> list[dict[str, Any]]:
    """The posts of a file that ``training_model.py`` wrote."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def clock() -> tuple[float, float]:
    """Seconds by the wall, and of processor time of all threads. A busy machine distorts the second less; threads that
    wait in a loop for each other count in it."""
    return time.perf_counter(), time.process_time()


def memory() -> dict[str, float]:
    """This process's resident memory in MB: now (``now``; not known beside Linux), and at most so far (``peak``)."""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss: bytes on macOS, kilobytes elsewhere
    found = {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}
    status = Path("/proc/self/status")
    if status.exists():
        pairs = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        found["now"] = int(pairs["VmRSS"].split()[0]) / 2**10
    return found


register("benchmark/posts-v0", posts)
register("benchmark/writers-v0", writers)

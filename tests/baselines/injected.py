"""Faults that are done to real runs, and what has to come of each: nothing lost, nothing wrong, a clear message.

A fault is a function that gets an empty folder. It runs the command line there in forked children, does the damage, and
holds what comes of it against a run that nothing was done to. It returns the outcome in words, or fails by an assert.
``tests/benchmarks/faults.py`` prints them all as a table; ``test_faults.py`` runs them as tests. The faults themselves are
in ``injected_inside.py`` (the process and its files) and ``injected_outside.py`` (what a run depends on).
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forked import numbers, output, run_cli

from llm_marl_baselines import checkpoint

BASIC = "--model tiny --trackers [] --output run".split()
GAME = "train magrpo --env probe/two-turn-v0 --steps 6 --checkpoint-every 2 --samples-every 2".split() + BASIC
ARGS = [*GAME, "--eval-every", "3", "--eval-episodes", "8"]
RESUME = ["train", "--resume", "run"]


class Unavailable(Exception):  # noqa: N818 (it says what is the case)
    """The fault cannot be brought about on this machine."""


@dataclass(frozen=True)
class Fault:
    """Attributes: ``what`` is done; ``inject`` does it in a folder and returns the outcome; ``slow``: takes minutes."""

    what: str
    inject: Callable[[Path], str]
    slow: bool


FAULTS: dict[str, Fault] = {}


def fault(name: str, what: str, slow: bool = False) -> Callable[[Callable[[Path], str]], Callable[[Path], str]]:
    def add(inject: Callable[[Path], str]) -> Callable[[Path], str]:
        FAULTS[name] = Fault(what, inject, slow)
        return inject

    return add


@functools.cache
def undisturbed(args: tuple[str, ...]) -> tuple[dict[str, bytes], float]:
    """What a run of these settings ends with, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        assert run_cli(args, Path(folder)) == 0, output(Path(folder))
        return numbers(Path(folder)), time.monotonic() - begun


def same_end(folder: Path, args: Sequence[str] = ARGS) -> None:
    """Go on with the run there, and find the numbers of an undisturbed one."""
    assert run_cli(RESUME, folder) == 0, output(folder)
    assert numbers(folder) == undisturbed(tuple(args))[0]
    assert not list((folder / "run" / "checkpoints").glob(".partial*"))


def said(folder: Path, *words: str) -> str:
    text = output(folder)
    assert "Traceback" not in text, text
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    return text


def saved(folder: Path) -> list[str]:
    return [path.name for path in checkpoint.complete(folder / "run")]


def contents(run: Path) -> dict[str, bytes]:
    """Every file of a run, byte for byte."""
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}

"""What a run writes down, and what it shows.

``metrics.jsonl``   numbers only, no times: a resumed run ends byte-identical to one that was never stopped
``timing.jsonl``    seconds and rates, which differ from run to run
``samples.jsonl``   whole transcripts
``events``          the same metrics for TensorBoard and other trackers, through accelerate
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker, get_available_trackers
from accelerate.utils import LoggerType

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean, load_object

from .errors import RunLogError

LOGS = ("metrics.jsonl", "timing.jsonl", "samples.jsonl")


class RunLog:
    """The log files of one run, open for appending.

    Args:
        run: the run's folder.
        sizes: bytes of each log at the checkpoint that the run goes on from; what is beyond is cut off. None for a
            new run, whose logs start empty.
        trackers: names of accelerate's trackers ("tensorboard", "wandb" ...), or "package.module:Class" of a
            ``GeneralTracker``.
        config: shown by the trackers as the run's hyper-parameters.
        step: updates done; TensorBoard drops what it was told of later ones.
    """

    def __init__(
        self,
        run: Path,
        sizes: Mapping[str, int] | None,
        trackers: Sequence[str],
        config: Mapping[str, Any],
        step: int = 0,
    ):
        self.run = run
        self._files = {}
        for name in LOGS:
            size = (sizes or {}).get(name, 0)
            file = self._files[name] = open(run / name, "ab", buffering=0)
            if (found := os.fstat(file.fileno()).st_size) < size:
                raise RunLogError(
                    f"{run / name} has {found} bytes, and had {size} when the checkpoint was written: it was changed "
                    "since. Put it back as it was, or start a new run."
                )
            file.truncate(size)
        self._trackers = _start_trackers(run, trackers, config, step)

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Append one line.

        Raises:
            RunLogError: it could not be written whole; the part that was is removed.
        """
        file = self._files[name]
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        start = file.tell()
        try:
            written = file.write(line)
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes were written")
        except OSError as error:
            os.ftruncate(file.fileno(), start)
            raise RunLogError(
                f"{self.run / name} could not be written: {error}. Free some space, then --resume {self.run}."
            ) from error

    def metrics(self, record: Mapping[str, Any]) -> None:
        """Append to metrics.jsonl and tell the trackers; ``record`` has ``step`` and ``phase``.

        Raises:
            RunLogError: one of them could not be written.
        """
        self.write("metrics.jsonl", record)
        numbers = {
            f"{record['phase']}/{k}": v for k, v in record.items() if isinstance(v, (int, float)) and k != "step"
        }
        for tracker in self._trackers:
            try:
                tracker.log(numbers, step=record["step"])
            except OSError as error:
                raise RunLogError(
                    f"The tracker {tracker.name!r} could not write: {error}. Free some space, then --resume {self.run}."
                ) from error

    def sizes(self) -> dict[str, int]:
        """Bytes of each log now, with all of it on the disk."""
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}

    def close(self) -> None:
        for tracker in self._trackers:
            try:
                tracker.finish()
            except OSError as error:  # often after an error that says more, which this one must not hide
                say(f"The tracker {tracker.name!r} lost its last events ({error}); metrics.jsonl has all numbers.")
        for file in self._files.values():
            file.close()


def check_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError for a tracker that accelerate does not know, or whose package is not installed; and for a
    ``package.module:Class`` that is no tracker."""
    for name in names:
        _tracker_class(name)


def _tracker_class(name: str) -> type[GeneralTracker]:
    if ":" in name:
        found = load_object(name)
        if not (isinstance(found, type) and issubclass(found, GeneralTracker)):
            raise ConfigError(f"Tracker {name!r} is no class that derives from accelerate.tracking.GeneralTracker.")
        if missing := [a for a in ("name", "requires_logging_directory", "tracker") if not hasattr(found, a)]:
            raise ConfigError(f"Tracker {name!r} lacks {', '.join(missing)}, which accelerate reads from its class.")
        arguments, folder = _arguments(found)
        try:
            inspect.signature(found).bind(*arguments, **folder)
        except TypeError as error:
            raise ConfigError(
                f"Tracker {name!r} cannot be made with the name of the project"
                f"{' and logging_dir=' if folder else ''} alone: {error}."
            ) from error
        return found
    known = [str(t.value) for t in LoggerType if t.value != "all"]
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(
            f"Unknown tracker {name!r}.{hint} Known to accelerate: {', '.join(known)}. Your own is named "
            "'package.module:Class'."
        )
    if LoggerType(name) not in get_available_trackers():
        raise ConfigError(f"Tracker {name!r} is not installed: pip install {name}, or drop it from --trackers.")
    return LOGGER_TYPE_TO_CLASS[name]


def _arguments(kind: type[GeneralTracker], run: Path = Path()) -> tuple[tuple[str, ...], dict[str, str]]:
    """What a tracker is made with, as accelerate does it."""
    in_folder = kind.requires_logging_directory
    return ("events" if in_folder else "llm-marl",), {"logging_dir": str(run)} if in_folder else {}


def _start_trackers(run: Path, names: Sequence[str], config: Mapping[str, Any], step: int) -> list[GeneralTracker]:
    started = []
    for name in names:
        kind = _tracker_class(name)
        arguments, folder = _arguments(kind, run)
        purge = {"purge_step": step + 1} if name == "tensorboard" and step else {}
        tracker = kind(*arguments, **folder, **purge)
        tracker.start()
        tracker.store_init_configuration({k: v for k, v in config.items() if isinstance(v, (int, float, str, bool))})
        started.append(tracker)
    return started


def say(text: str) -> None:
    """Tell who watches, before there is a bar."""
    print(text, file=sys.stderr, flush=True)


class Progress:
    """A live bar on a terminal, plain lines in a pipe."""

    def __init__(self, total: int, done: int):
        self._total, self._done, self._bar = total, done, None
        self._seconds, self._steps = 0.0, 0
        if sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("training", total=total, completed=done)

    def step(self, shown: Mapping[str, float], seconds: float) -> None:
        """One more update is done, in so many seconds; ``shown`` are the numbers beside the bar."""
        self._done += 1
        self._seconds, self._steps = self._seconds + seconds, self._steps + 1
        text = ", ".join(
            f"{name} {value:,.0f}" if value >= 100 else f"{name} {value:.3f}" for name, value in shown.items()
        )
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=text)
            return
        left = self._seconds / self._steps * (self._total - self._done)
        print(f"step {self._done}/{self._total}: {text}, {left:,.0f} s left", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            say(text)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

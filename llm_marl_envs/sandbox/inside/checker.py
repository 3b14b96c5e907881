"""The trusted side: holds the tests, executes them, and calls the program in its process for every result.

It runs data-set code, so that it has an isolation layer of its own. A test that does not end, because of what a program
returned, ends this process: its processor time is limited for every check, and the worker is made anew.
"""

from __future__ import annotations

import gc
import io
import os
import random
import resource
import signal
import socket
import sys
import traceback
from collections import OrderedDict
from types import CodeType
from typing import Any, NamedTuple

from . import zygote
from .calling import Parser, Predicted, Run
from .channel import Channel, ClosedError, pack_trusted
from .processes import Budget, InfrastructureError, Nursery, Process
from .seccomp import CHECKER, Filter
from .splitting import Split, split
from .tracking import Lost, Tracker

MEMORY_BYTES = 1 << 30
REQUEST_BYTES = 1 << 26
KEPT_SUITES = 512


def main(
    request_fd: int,
    control_fd: int,
    limits: dict[str, Any],
    filtered: dict[str, Any] | None,
    probe: dict[str, Any],
) -> None:
    """Serve until the trainer closes the connection.

    Args:
        request_fd, control_fd: sockets to the trainer and to the zygote.
        limits: fields of ``Limits``.
        filtered: arguments of :class:`Filter`; None for no filter, and no self-test.
        probe: what the self-test has to know; see :mod:`.probing`.
    """
    zygote.preload(filtered is None or filtered["open_files"])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout = sys.stderr = io.StringIO()
    sys.set_int_max_str_digits(0)  # results are shown in messages; their size is limited already
    requests = Channel(request_fd, REQUEST_BYTES)
    nursery = Nursery(socket.socket(fileno=control_fd))
    checker = Checker(nursery, limits)
    if filtered is not None:
        Filter(**filtered, more=CHECKER).load(signal.SIGKILL)
    gc.freeze()
    gc.set_threshold(10_000)  # messages are many objects, and gone soon
    try:
        requests.send({"escapes": _escapes(nursery, limits, probe) if filtered is not None else []})
        while True:
            request = requests.receive()
            requests.send(checker.check(request))
            sys.stdout.seek(0)
            sys.stdout.truncate()
    except (ClosedError, InfrastructureError):
        return
    except Exception:
        # A fault of ours. The streams belong to the tests, so that it is told by hand.
        os.write(2, traceback.format_exc()[-4_000:].encode())
        raise


def _escapes(nursery: Nursery, limits: dict[str, Any], probe: dict[str, Any]) -> list[str]:
    process = Process(nursery, zygote.CHILD, limits["message_bytes"])
    budget = Budget({**limits, "cpu_seconds": 5.0, "total_cpu_seconds": 5.0, "wall_seconds": 30.0})
    try:
        process.send(pack_trusted(("", [], probe)), budget)
        found: list[str] = process.receive(budget)["escapes"]
    except Lost as lost:
        return [f"end the self-test ({lost.outcome}: {lost.message})"]
    process.end()
    return found


class Checker:
    """Runs checks, one at a time."""

    def __init__(self, nursery: Nursery, limits: dict[str, Any]):
        self._nursery = nursery
        self._limits = limits
        self._parser = Parser(nursery)
        self._suites: OrderedDict[tuple[str, str, str], _Suite] = OrderedDict()

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """The verdict as data."""
        suite = self._suite(request["tests"], request["entry_point"], request["reference"])
        random.seed(0)
        run = Run(self._nursery, self._parser, self._limits, request["program"], suite.predicted)
        try:
            error = run.load()
            results = Tracker(suite.split, run, loaded=error is None)
            if error is None:
                # Without a handler the signal ends this process, even in the middle of a long multiplication.
                signal.setitimer(signal.ITIMER_PROF, self._limits["total_cpu_seconds"])
                results.execute(suite.reference, request["entry_point"])
                signal.setitimer(signal.ITIMER_PROF, 0)
            if run.is_void:
                raise InfrastructureError
            return {
                "error": error,
                "structure": run.structure,
                "tests": results.all(),
                "constant": suite.split.constant,
            }
        finally:
            run.end()

    def _suite(self, tests: str, entry_point: str, reference: str) -> _Suite:
        key = (tests, entry_point, reference)
        if key not in self._suites:
            compiled = compile(reference, "<reference>", "exec", dont_inherit=True)
            taken_apart = split(tests, entry_point)
            self._suites[key] = _Suite(taken_apart, compiled, Predicted.of(taken_apart.calls))
            if len(self._suites) > KEPT_SUITES:
                self._suites.popitem(last=False)
        self._suites.move_to_end(key)
        return self._suites[key]


class _Suite(NamedTuple):
    split: Split
    reference: CodeType
    predicted: Predicted | None

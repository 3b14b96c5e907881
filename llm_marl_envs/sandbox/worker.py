"""One worker: a checker process and a zygote process, each in an isolation layer, and the line to the checker."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import IO, Any

from ..errors import SandboxUnavailable
from .inside.channel import Channel, ClosedError
from .inside.codec import ProtocolError
from .isolation import Isolation
from .isolation.bubblewrap import REMEDIES
from .isolation.interpreter import ENVIRONMENT
from .programs import Limits

START_SECONDS = 60.0
GRACE_SECONDS = 10.0  # beyond the program's own wall limit, until the checker counts as stuck
ANSWER_BYTES = 1 << 26
# A process that computed without end for a program's sake, or needed too much for it, ends in one of these ways.
OWN_LIMITS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)

_START = (
    "import sys, json; sys.path.insert(0, sys.argv[1]); from inside.{0} import main; main(*json.loads(sys.argv[2]))"
)


class WorkerDiedError(Exception):
    """The worker is gone, for no reason that the program gave."""


class CheckerLimitError(Exception):
    """The checker exceeded its own limits on this program."""


class Worker:
    """Starts at once.

    Args:
        isolation: the backend.
        limits: of every program.

    Raises:
        SandboxUnavailable: the layer does not start, or does not hold.
    """

    def __init__(self, isolation: Isolation, limits: Limits):
        _check_platform()
        self.isolation = isolation
        self.limits = limits
        ours, checkers_request = socket.socketpair()
        checkers_control, zygotes_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        # A pipe, since the processes may write to no file. It is read when all of them are gone.
        reading, self._errors_in = os.pipe()
        self._errors: IO[bytes] = open(reading, "rb", closefd=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        fields = asdict(limits)
        probe = {
            "open_files": isolation.open_files,
            "secret_file": os.path.abspath(__file__),
            "environment": sorted(ENVIRONMENT),
        }
        try:
            filtered = {"open_files": isolation.open_files} if isolation.isolated else None
            self._start("zygote", [zygotes_control], fields, filtered)
            self._start("checker", [checkers_request, checkers_control], fields, filtered, probe)
            for end in (checkers_request, checkers_control, zygotes_control):
                end.close()
            self._close_errors_in()
            self._channel = Channel(ours.fileno(), ANSWER_BYTES)
            self._greet()
        except BaseException:
            self.close()
            raise

    def _start(self, module: str, pass_on: list[socket.socket], *settings: Any) -> None:
        arguments = json.dumps([*(s.fileno() for s in pass_on), *settings])
        command = self.isolation.command(_START.format(module), [arguments])
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors_in,
                pass_fds=[s.fileno() for s in pass_on],
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(f"{command[0]} does not start ({error}). {REMEDIES}") from error
        self._processes.append(process)

    def _greet(self) -> None:
        """Wait for the result of the self-test."""
        try:
            if not self._channel.wait(START_SECONDS):
                raise ClosedError
            found = self._channel.receive()["escapes"]
        except (ClosedError, ProtocolError) as error:
            raise SandboxUnavailable(
                f"The sandbox ({self.isolation.name}) does not start: {self._complaint()}. {REMEDIES}"
            ) from error
        if found:
            raise SandboxUnavailable(
                f"The sandbox ({self.isolation.name}) starts and does not hold: from inside, a program could "
                f"{'; '.join(found)}. No model-written code was run. {REMEDIES}"
            )

    def _complaint(self) -> str:
        for process in self._processes:
            process.kill()
            process.wait()
        self._close_errors_in()
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else "its processes end without a message"

    def check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run one check; see ``inside.checker`` for both messages.

        Raises:
            WorkerDiedError: infrastructure failed; the worker is of no use any more.
            CheckerLimitError: the trusted side exceeded its limits; likewise.
        """
        try:
            self._channel.send(request)
            if not self._channel.wait(self.limits.wall_seconds + GRACE_SECONDS):
                raise CheckerLimitError("the tests did not end")
            return self._channel.receive()
        except (ClosedError, ProtocolError) as error:
            checker = self._processes[1]
            try:
                code = checker.wait(timeout=5)
            except subprocess.TimeoutExpired:
                code = 0
            # bwrap passes on a signal as 128 plus its number, as a shell does.
            ended = -code if code < 0 else code - 128
            if ended in OWN_LIMITS:
                raise CheckerLimitError(f"the tests' process was ended by {signal.Signals(ended).name}") from error
            raise WorkerDiedError(f"exit status {code}: {self._complaint()}") from error

    @property
    def pids(self) -> list[int]:
        """Of the processes that were started; for tests."""
        return [process.pid for process in self._processes]

    def close(self) -> None:
        """End both processes and all that is in their layers."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._socket.close()
        self._close_errors_in()
        self._errors.close()

    def _close_errors_in(self) -> None:
        if self._errors_in >= 0:
            os.close(self._errors_in)
            self._errors_in = -1


def _check_platform() -> None:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "aarch64"):
        raise SandboxUnavailable(
            f"Model-written code is isolated on Linux (x86_64, aarch64) only, not on {sys.platform} ({machine}). "
            "Use WSL2 on Windows, or a Linux container; all other tasks work here."
        )

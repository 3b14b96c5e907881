"""The trusted side's hold on processes that may lie, hang or die: where they come from, what they may use up, how they
ended.
"""

from __future__ import annotations

import signal
import socket
import time
from typing import Any

from . import zygote
from .channel import NOTHING, Channel, ClosedError
from .codec import ProtocolError
from .tracking import Lost


class InfrastructureError(BaseException):
    """The zygote is gone, or a process was killed from outside: no fault of the program, and nothing for tests to
    catch."""


class Nursery:
    """Where children come from: the checker's side of the zygote's control socket."""

    def __init__(self, control: socket.socket):
        self._control = control
        self._closing: list[Channel] = []
        self._ready: dict[bytes, list[tuple[int, int]]] = {zygote.CHILD: [], zygote.PARSER: []}

    def take(self, kind: bytes = zygote.CHILD) -> tuple[int, int]:
        """Number and socket of a process that nobody used."""
        while not self._ready[kind]:
            self._receive()
        return self._ready[kind].pop(0)

    def discard(self, number: int, channel: Channel) -> None:
        """Let it be killed; its successor comes by itself. Its channel is closed later, when it will be dead: one that
        noticed would only spend time on leaving."""
        self._send(zygote.DONE, number)
        self._closing.append(channel)
        if len(self._closing) > 1:
            self._closing.pop(0).close()

    def cpu_seconds(self, number: int) -> float:
        """Processor time so far."""
        return self._ask(zygote.CPU, number)

    def status(self, number: int) -> int:
        """How a process ended that has closed its socket, as ``os.waitpid`` tells it; 0 if it had to be killed."""
        return int(self._ask(zygote.STATUS, number))

    def _ask(self, operation: bytes, number: int) -> float:
        self._send(operation, number)
        while True:
            kind, _, value = self._receive()
            if kind == operation:
                return value

    def _send(self, operation: bytes, number: int) -> None:
        try:
            self._control.send(zygote.PACKET.pack(operation, number, 0.0))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise InfrastructureError from error

    def _receive(self) -> tuple[bytes, int, float]:
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, zygote.PACKET.size, 1)
        except ConnectionResetError as error:
            raise InfrastructureError from error
        if len(packet) < zygote.PACKET.size:
            raise InfrastructureError
        kind, number, value = zygote.PACKET.unpack(packet)
        if fds:
            self._ready[kind].append((number, fds[0]))
        return kind, number, value


class Budget:
    """What one check may use up, whatever processes it takes.

    Args:
        limits: fields of ``Limits``.
    """

    def __init__(self, limits: dict[str, Any]):
        self.limits = limits
        self.started = time.monotonic()
        self.spent = 0.0  # processor seconds of processes that are gone

    @property
    def is_used_up(self) -> bool:
        late = time.monotonic() - self.started >= self.limits["wall_seconds"]
        return late or self.spent >= self.limits["total_cpu_seconds"]


class Process:
    """A process of the zygote's, taken from the nursery.

    Attributes:
        busy: an upper bound of the processor time that it used for earlier messages, which the user keeps. What it has
            used beyond that was for the message that is awaited.
        before: the part of ``busy`` that was for earlier checks, and is no part of this one's budget.
    """

    def __init__(self, nursery: Nursery, kind: bytes, max_bytes: int):
        self._nursery = nursery
        self._number, fd = nursery.take(kind)
        self.channel = Channel(fd, max_bytes)
        self.busy = 0.0
        self.before = 0.0

    def receive(self, budget: Budget) -> dict[str, Any]:
        """The next message.

        Raises:
            Lost: it does not come within the limits, or is none. The process is gone then.
        """
        message = self._received(budget)
        if not isinstance(message, dict):
            raise self._kill(budget, "protocol_error", "a message that is no object")
        return message

    def receive_bytes(self, budget: Budget) -> bytes:
        """The next message, unread.

        Raises:
            Lost: see ``receive``.
        """
        body: bytes = self._received(budget, unread=True)
        return body

    def _received(self, budget: Budget, unread: bool = False) -> Any:
        try:
            return self._awaited(budget, unread)
        except ClosedError:
            raise self._died(budget) from None
        except ProtocolError as error:
            raise self._kill(budget, "protocol_error", str(error)) from error

    def send(self, data: bytes, budget: Budget) -> None:
        """Send packed messages.

        Raises:
            Lost: nobody is there to receive them.
        """
        try:
            self.channel.send_bytes(data)
        except ClosedError:
            raise self._died(budget) from None

    def refuse(self, budget: Budget, message: str) -> Lost:
        """Kill it for a message that makes no sense; returns what to raise."""
        return self._kill(budget, "protocol_error", message)

    def _awaited(self, budget: Budget, unread: bool) -> Any:
        limits = budget.limits
        begun = time.monotonic()
        # Nothing is asked of the zygote as long as no limit can have been reached.
        left = limits["total_cpu_seconds"] - budget.spent - (self.busy - self.before)
        slice_ = max(0.01, min(limits["cpu_seconds"], left))
        while (message := self.channel.take(unread)) is NOTHING:
            if self.channel.wait(slice_):
                self.channel.fill()
                if time.monotonic() - begun < slice_:
                    continue
            now = time.monotonic()
            total = self._nursery.cpu_seconds(self._number)
            used = total - self.busy
            waited = now - budget.started
            if used >= limits["cpu_seconds"]:
                raise self._kill(budget, "timeout", f"more than {limits['cpu_seconds']:g} s of processor time")
            left = limits["total_cpu_seconds"] - budget.spent - (total - self.before)
            if left <= 0:
                whole = f"{limits['total_cpu_seconds']:g}"
                raise self._kill(budget, "timeout", f"more than {whole} s of processor time in all")
            if waited >= limits["wall_seconds"]:
                raise self._kill(budget, "timeout", f"more than {limits['wall_seconds']:g} s")
            slice_ = max(0.01, min(limits["cpu_seconds"] - used, left, limits["wall_seconds"] - waited))
        return message

    def _kill(self, budget: Budget, outcome: str, message: str) -> Lost:
        budget.spent += self._nursery.cpu_seconds(self._number)
        self.end()
        return Lost(outcome, message)

    def _died(self, budget: Budget) -> Lost:
        budget.spent += self._nursery.cpu_seconds(self._number)
        self.channel.close()
        status = self._nursery.status(self._number)
        by = status & 0x7F
        if by == signal.SIGKILL:  # which no program can send, and we did not
            raise InfrastructureError
        if by == signal.SIGXCPU:
            return Lost("timeout", "more processor time than a process may take")
        return Lost("crash", f"the process was ended by signal {by}" if by else "it left")

    def end(self) -> None:
        """Let it be killed."""
        self._nursery.discard(self._number, self.channel)

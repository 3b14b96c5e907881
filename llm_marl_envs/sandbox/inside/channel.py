"""Messages over a socket: four bytes of length, then JSON in ASCII."""

from __future__ import annotations

import json
import os
import select
from typing import Any

from .codec import ProtocolError

HEADER = 4


class ClosedError(Exception):
    """The other side is gone."""


def pack(message: Any) -> bytes:
    """The bytes of a message."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(HEADER, "big") + body


class Channel:
    """One end of a connection. Reads and writes with ``read`` and ``write``: a program may use no other system calls.

    Args:
        fd: of the socket.
        max_bytes: most bytes of a message that is received.
    """

    def __init__(self, fd: int, max_bytes: int):
        self.fd = fd
        self.max_bytes = max_bytes
        self._pending = b""
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def close(self) -> None:
        """Let the other side see that nobody is here."""
        os.close(self.fd)

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            ClosedError: the other side is gone.
        """
        self.send_bytes(pack(message))

    def send_bytes(self, data: bytes) -> None:
        """Send a message that is packed already."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.fd, view) :]
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ClosedError from error

    def wait(self, seconds: float) -> bool:
        """Whether there is something to receive, within this time."""
        return bool(self._pending) or bool(self._poll.poll(max(0, int(seconds * 1000))))

    def receive(self) -> Any:
        """The next message; blocks until it is complete.

        Raises:
            ClosedError: the other side is gone.
            ProtocolError: too long, or not JSON.
        """
        while (message := self.take()) is NOTHING:
            self.fill()
        return message

    def fill(self) -> None:
        """Read what is there, blocking for the first byte."""
        try:
            data = os.read(self.fd, 1 << 16)
        except ConnectionResetError as error:
            raise ClosedError from error
        if not data:
            raise ClosedError
        self._pending = self._pending + data if self._pending else data

    def take(self) -> Any:
        """A message that has arrived completely, or ``NOTHING``."""
        pending = self._pending
        if len(pending) < HEADER:
            return NOTHING
        size = int.from_bytes(pending[:HEADER], "big")
        if size > self.max_bytes:
            raise ProtocolError(f"a message of {size} bytes; the limit is {self.max_bytes}")
        if len(pending) < HEADER + size:
            return NOTHING
        self._pending = pending[HEADER + size :]
        try:
            return json.loads(pending[HEADER : HEADER + size])
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a message that is not JSON ({type(error).__name__})") from error


NOTHING = object()

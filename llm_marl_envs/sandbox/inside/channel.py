"""Messages over a socket: four bytes of length, then JSON in ASCII, or what ``marshal`` makes.

Only the trusted side sends what is marshalled: bytes that were made up can crash who reads them. In exchange reading
them is a single call, where JSON takes code of Python's library, and each page of that is one more for a new process to
copy.
"""

from __future__ import annotations

import json.encoder
import marshal
import os
from typing import Any

from .codec import ProtocolError

HEADER = 4
# What ``json.dumps`` makes anew for each message. Without circular references: they end in a RecursionError.
_chunks = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, json.JSONEncoder().default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)
_decoded = json.JSONDecoder().raw_decode


class ClosedError(Exception):
    """The other side is gone."""


def pack(message: Any) -> bytes:
    """The bytes of a message in JSON."""
    return framed("".join(_chunks(message, 0)).encode("ascii"))


def pack_trusted(message: Any) -> bytes:
    """The bytes of a message from the trusted side."""
    return framed(marshal.dumps(message))


def framed(body: bytes) -> bytes:
    """A message's body with its length in front."""
    return len(body).to_bytes(HEADER, "big") + body


class Channel:
    """One end of a connection. Reads and writes with ``read`` and ``write``: a program may use no other system calls.

    Args:
        fd: of the socket.
        max_bytes: most bytes of a message that is received.
        trusted: whether the other side is, so that what it sends is marshalled.
    """

    def __init__(self, fd: int, max_bytes: int, trusted: bool = False):
        self.fd = fd
        self.max_bytes = max_bytes
        self._load = marshal.loads if trusted else _json
        self._pending = b""
        self._poll: Any = None

    def close(self) -> None:
        """Let the other side see that nobody is here."""
        os.close(self.fd)

    def send(self, message: Any) -> None:
        """Send a message in JSON.

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
        if self._pending:
            return True
        if self._poll is None:
            import select  # here: a program's process does not wait, and each module makes it larger

            self._poll = select.poll()
            self._poll.register(self.fd, select.POLLIN)
        return bool(self._poll.poll(max(0, int(seconds * 1000))))

    def receive(self) -> Any:
        """The next message; blocks until it is complete.

        Raises:
            ClosedError: the other side is gone.
            ProtocolError: too long, or no message.
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

    def take(self, unread: bool = False) -> Any:
        """A message that has arrived completely, or its bytes if it is to be left unread, or ``NOTHING``."""
        pending = self._pending
        if len(pending) < HEADER:
            return NOTHING
        size = int.from_bytes(pending[:HEADER], "big")
        if size > self.max_bytes:
            raise ProtocolError(f"a message of {size} bytes; the limit is {self.max_bytes}")
        if len(pending) < HEADER + size:
            return NOTHING
        self._pending = pending[HEADER + size :]
        body = pending[HEADER : HEADER + size]
        return body if unread else self._load(body)


def _json(body: bytes) -> Any:
    try:
        text = body.decode("ascii")
        message, end = _decoded(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message that is not JSON ({type(error).__name__})") from error
    if end != len(text):
        raise ProtocolError("a message with something behind it")
    return message


NOTHING = object()

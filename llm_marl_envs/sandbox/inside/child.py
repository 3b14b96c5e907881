"""The process that holds a program: one check, then it is killed. Everything it says may be a lie.

It was forked from the zygote, so that it starts within a millisecond. It gives up what a program does not need, waits
for a program (which the ``parser`` has read and compiled), executes it and answers calls, until somebody kills it.

Messages, each a JSON object. To the child: ``{"main", "helpers", "code"}`` (names, and code of preamble, helpers and
main) once, then ``{"call": id, "args", "kwargs"}``. From it: ``{"loaded": None | error}``, then for each call ``{"id",
"value" | "error" | "unsupported", "called": [helpers]}``. An error is ``{"type", "crosses", "message", "part",
"line"}``.
"""

from __future__ import annotations

import binascii
import builtins
import functools
import io
import marshal
import os
import resource
import signal
import sys
import types
from typing import Any

from . import probing
from .channel import Channel, ClosedError
from .codec import ADDRESS, Decoder, Encoder, UnsupportedValueError
from .seccomp import Filter

CHANNEL_FD = 3
MESSAGE_BYTES = 1 << 26  # of what the trusted side sends: arguments may be larger than what a program may answer
MESSAGE_CHARACTERS = 300  # of an exception's text
MODULE = "solution"  # not "__main__": what stands under that condition is no part of a solution
RECURSION_LIMIT = 2_000  # twice Python's own, since a counted helper takes two frames a call

# Exceptions that cross as themselves, so that a test can expect them. All others become CandidateError.
CROSSING = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, (Warning, AssertionError))
    if kind is not Exception
}


def serve(fd: int, limits: dict[str, Any], filter_: Filter | None) -> None:
    """Be the child: executes one program. Returns when the checker is gone.

    Args:
        fd: socket to the checker.
        limits: fields of ``Limits``.
        filter_: of system calls; None under ``unsafe``.
    """
    # The checker kills long before; this is for when it cannot.
    confine(fd, filter_, cpu_seconds=int(limits["total_cpu_seconds"]) + 2)
    channel = prepared_channel()
    try:
        job = channel.receive()
        if "probe" in job:
            channel.send({"escapes": probing.escapes(job["probe"])})
            return
        _Program(channel, job, limits).run()
    except ClosedError:
        return


def prepare(limits: dict[str, Any]) -> None:
    """What processes inherit from the zygote. All that is done here is not done in every child, where each page of
    memory that is written to costs a page fault."""
    for what, most in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (most, most))
    import random  # here, after zygote.preload

    sys.setrecursionlimit(RECURSION_LIMIT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    random.seed(0)


def confine(fd: int, filter_: Filter | None, cpu_seconds: int | None) -> None:
    """Give up all but the socket, memory and time."""
    os.dup2(fd, CHANNEL_FD, inheritable=False)
    os.closerange(CHANNEL_FD + 1, 1 << 20)
    os.dup2(1, 2)  # both are /dev/null: what a program prints is dropped
    sys.stdin, sys.stdout, sys.stderr = _NO_INPUT, _SINK, _SINK
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
    if cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if filter_ is not None:
        filter_.load(signal.SIGKILL.value)


def prepared_channel() -> Channel:
    """To the checker, once this process is confined."""
    return Channel(CHANNEL_FD, MESSAGE_BYTES)


class _Sink(io.TextIOBase):
    """Where a program's output goes."""

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


_NO_INPUT, _SINK = io.StringIO(), _Sink()


class _Program:
    def __init__(self, channel: Channel, job: dict[str, Any], limits: dict[str, Any]):
        self._channel = channel
        self._main: str = job["main"]
        self._helpers: list[str] = job["helpers"]
        self._code: list[str | None] = job["code"]
        self._encoder = Encoder(limits["items"], limits["depth"])
        self._decoder = Decoder(1 << 30, 1_000)  # arguments are trusted
        self._called: set[str] = set()

    def run(self) -> None:
        module = types.ModuleType(MODULE)
        sys.modules[MODULE] = module
        error = self._load(vars(module))
        function = vars(module).get(self._main)
        if error is None and not callable(function):
            error = {"type": "missing", "message": f"no function {self._main!r} is defined"}
        self._channel.send({"loaded": error})
        while True:
            self._answer(function, self._channel.receive())

    def _load(self, space: dict[str, Any]) -> dict[str, Any] | None:
        """Execute the parts, one after another, in one namespace; returns what went wrong in the last one."""
        for name, code in zip(["", *self._helpers, self._main], self._code, strict=True):
            error = None
            if code is not None:
                try:
                    exec(marshal.loads(binascii.a2b_base64(code)), space)
                except BaseException as raised:  # SystemExit and the like come from the program, too
                    error = _described(raised)  # of a helper: it fails where it is used
            if name in self._helpers and callable(space.get(name)):
                space[name] = self._counted(space[name], name)
        return error

    def _counted(self, function: Any, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._called.add(name)
            return function(*args, **kwargs)

        try:
            return functools.wraps(function)(call)
        except BaseException:  # an object whose attributes raise
            return call

    def _answer(self, function: Any, message: dict[str, Any]) -> None:
        args = [self._decoder.decode(value) for value in message["args"]]
        kwargs = {name: self._decoder.decode(value) for name, value in message["kwargs"].items()}
        self._called.clear()
        answer: dict[str, Any] = {"id": message["call"]}
        try:
            answer["value"] = self._encoder.encode(function(*args, **kwargs))
        except UnsupportedValueError as error:
            answer["unsupported"] = str(error)
        except BaseException as error:
            answer["error"] = _described(error)
        answer["called"] = sorted(self._called)
        self._channel.send(answer)


def _described(error: BaseException) -> dict[str, Any]:
    """An exception as data: the builtin type it crosses as, its text, and where in which part it was raised."""
    kind = next((base.__name__ for base in type(error).__mro__ if CROSSING.get(base.__name__) is base), "")
    try:
        message = str(error)[:MESSAGE_CHARACTERS]
    except BaseException:
        message = ""
    described: dict[str, Any] = {
        "type": str(type(error).__name__)[:80],
        "crosses": kind,
        "message": ADDRESS.sub("", message),
    }
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith("<") and not name.startswith("<frozen"):
            described |= {"line": trace.tb_lineno, "part": name.strip("<>")}
        trace = trace.tb_next
    return described

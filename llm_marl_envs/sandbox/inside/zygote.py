"""The clean interpreter from which the process of every program is forked. It never executes a program itself.

It keeps children ready, one in use and one spare, and a parser, each with a socket whose other end it hands to the
checker. It is also the one who can kill them and knows how they ended.

Messages on the control socket, one a packet: from the checker an operation (one letter) and the number of a child;
to the checker ``S`` or ``P`` with a number and a descriptor (a new child, a new parser), ``C`` (processor seconds) or
``X`` (how it ended).
"""

from __future__ import annotations

import _socket  # the module ``socket`` makes objects of its own, whose creation takes longer than the call
import ctypes
import gc
import importlib
import os
import signal
import struct
import sys
import time
from typing import Any, NamedTuple

from . import child, rehearsal
from .seccomp import Filter

READY = 2  # children that wait or work
LEAVE_SECONDS = 0.5
PACKET = struct.Struct("=cId")
DONE, CPU, STATUS = b"D", b"C", b"X"
CHILD, PARSER = b"S", b"P"
# Loaded before any child is forked, so that importing them costs a program nothing. Each module makes every fork and
# every exit dearer: these are the ones that most programs use.
COMMON = "bisect collections copy functools heapq itertools math operator random re string sys types typing".split()
# Where no file can be opened, all that programs may want has to be there.
ALL = (
    "__future__ abc array ast base64 binascii builtins calendar cmath codecs collections.abc colorsys contextlib "
    "copyreg dataclasses datetime decimal difflib enum fnmatch fractions functools glob graphlib hashlib hmac "
    "html inspect io ipaddress json keyword locale logging numbers os pathlib pickle pprint queue reprlib secrets "
    "select selectors shlex socket statistics struct tempfile textwrap threading time timeit token tokenize traceback "
    "unicodedata urllib.parse uuid warnings weakref zlib zoneinfo"
).split()


class Forked(NamedTuple):
    kind: bytes
    pid: int
    pidfd: int


def preload(open_files: bool) -> None:
    """Import what programs use.

    Args:
        open_files: whether a program can import more.
    """
    # Some of these modules would run code of theirs in every child (to seed anew, to make locks anew). A process with
    # one thread and a fixed seed needs none of it, and it costs more than the fork itself.
    register, os.register_at_fork = os.register_at_fork, lambda **_: None
    for name in COMMON if open_files else [*COMMON, *ALL]:
        importlib.import_module(name)
    os.register_at_fork = register


def main(control_fd: int, limits: dict[str, Any], filtered: dict[str, Any] | None) -> None:
    """Serve until the control socket is closed.

    Args:
        control_fd: socket to the checker.
        limits: fields of ``Limits``.
        filtered: arguments of :class:`Filter`; None for no filter.
    """
    preload(filtered is None or filtered["open_files"])
    try:
        child.prepare(limits)
        filter_ = Filter(**filtered) if filtered is not None else None
        template = child.Child(limits, filter_)
        rehearsal.rehearse(template.program, limits, filter_)
        gc.collect()
        rehearsal.fill_holes()
        gc.freeze()  # so that a child's collections do not copy every page of what is shared
        Zygote(_socket.socket(fileno=control_fd), template, filter_).run()
    except Exception:
        import traceback  # here: it would make every child larger

        os.write(2, traceback.format_exc()[-4_000:].encode())  # the streams are prepared for programs
        raise


class Zygote:
    def __init__(self, control: _socket.socket, template: child.Child, filter_: Filter | None):
        self._control = control
        self._template = template
        self._filter = filter_
        self._children: dict[int, Forked] = {}
        self._dying: list[Forked] = []
        self._next = 0
        self._libc_fork = ctypes.PyDLL(None).fork

    def run(self) -> None:
        try:
            for kind in (PARSER, *[CHILD] * READY):
                self._fork(kind)
            while True:
                packet = self._control.recv(PACKET.size)
                if len(packet) < PACKET.size:
                    break
                operation, number, _ = PACKET.unpack(packet)
                self._obey(operation, number)
        except (BrokenPipeError, ConnectionResetError):
            pass
        for one in self._children.values():
            self._kill(one)

    def _obey(self, operation: bytes, number: int) -> None:
        one = self._children[number]
        if operation == CPU:
            self._control.send(PACKET.pack(CPU, number, _cpu_seconds(one.pid)))
        elif operation == STATUS:
            status = self._ended(one)
            os.close(one.pidfd)
            del self._children[number]
            self._control.send(PACKET.pack(STATUS, number, status))
            self._fork(one.kind)
        else:
            del self._children[number]
            self._kill(one)
            self._dying.append(one)
            self._fork(one.kind)
            self._reap()

    def _ended(self, one: Forked) -> int:
        """How it ended. Its end of the socket is closed a moment before; one that goes on without is made to end: 0."""
        until = time.monotonic() + LEAVE_SECONDS
        while time.monotonic() < until:
            pid, status = os.waitpid(one.pid, os.WNOHANG)
            if pid:
                return status
            time.sleep(LEAVE_SECONDS / 1_000)
        self._kill(one)
        os.waitpid(one.pid, 0)
        return 0

    def _kill(self, one: Forked) -> None:
        signal.pidfd_send_signal(one.pidfd, signal.SIGKILL)

    def _reap(self) -> None:
        """Collect those who are dead by now; the others next time."""
        still = []
        for one in self._dying:
            if os.waitpid(one.pid, os.WNOHANG)[0] == 0:
                still.append(one)
            else:
                os.close(one.pidfd)
        self._dying = still

    def _fork(self, kind: bytes) -> None:
        ours, theirs = _socket.socketpair()
        # Not ``os.fork``: the interpreter would make anew what is there for threads, and there is one.
        pid = self._libc_fork()
        if pid < 0:
            raise OSError("no further process can be made")
        if pid == 0:
            try:
                if kind == CHILD:
                    self._template.serve(theirs.fileno())
                else:
                    from . import parser  # here: what it needs would make every child larger

                    parser.serve(theirs.fileno(), self._filter)
            finally:
                os._exit(0)
        theirs.close()
        self._next += 1
        self._children[self._next] = Forked(kind, pid, os.pidfd_open(pid))
        packet = PACKET.pack(kind, self._next, 0.0)
        fds = ours.fileno().to_bytes(4, sys.byteorder)
        self._control.sendmsg([packet], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
        ours.close()


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process that was not reaped yet."""
    # The kernel's encoding of "the processor clock of that process" (clock_getcpuclockid).
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0

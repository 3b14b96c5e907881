"""The system calls that a program may use: an allow-list, as a classic BPF filter that the kernel runs.

Anything else fails with EPERM; a call by another architecture's numbers (32-bit, x32) kills the process. Files can be
opened for reading only (backend ``strict``, which decides what files there are) or not at all (backend ``seccomp``).
There is no way to make a process or thread, a socket or a pipe, to signal, trace or read another process, or to change
limits, namespaces, credentials or the filter. ``sendmsg`` is missing too, so that no descriptor can be passed on.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType

# (x86_64, aarch64); None: this architecture has no such call.
ALWAYS: dict[str, tuple[int | None, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, 73),  # aarch64 has ppoll only
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "readv": (19, 65),
    "writev": (20, 66),
    "select": (23, 72),  # aarch64 has pselect6 only
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getpid": (39, 172),
    "exit": (60, 93),
    "uname": (63, 160),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, 169),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "getrandom": (318, 278),
}
# Reading what the file system of the sandbox shows.
READING: dict[str, tuple[int | None, int]] = {
    "stat": (4, 79),  # aarch64 has newfstatat only
    "lstat": (6, 79),
    "access": (21, 48),
    "getcwd": (79, 17),
    "readlink": (89, 78),
    "getdents64": (217, 61),
    "newfstatat": (262, 79),
    "readlinkat": (267, 78),
    "faccessat": (269, 48),
    "statx": (332, 291),
    "faccessat2": (439, 439),
}
# What the trusted side needs besides: it takes descriptors from the zygote and limits its own time.
CHECKER: dict[str, tuple[int | None, int]] = {"recvmsg": (47, 212), "sendto": (44, 206), "setitimer": (38, 103)}
OPEN: tuple[int | None, ...] = (2, None)  # flags are the second argument
OPENAT = (257, 56)  # flags are the third
IOCTL = (16, 29)  # of which TCGETS only: is this a terminal?
TCGETS = 0x5401
CLONE3 = 435  # must say "no such call", since the C library then tries clone, which is refused

MACHINES = ("x86_64", "aarch64")
_AUDIT_ARCH = (0xC000003E, 0xC00000B7)
_X32 = 0x40000000
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data; arguments are 64-bit, low half first
# Any of these flags makes an open more than reading: O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_TMPFILE.
_WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY)

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class Filter:
    """A filter that is ready to be loaded. Building it takes longer than loading it.

    Args:
        open_files: whether files can be opened for reading.
        more: further calls to allow.

    Raises:
        OSError: an architecture without a table here.
    """

    def __init__(self, open_files: bool, more: Mapping[str, tuple[int | None, int]] = MappingProxyType({})):
        machine = os.uname().machine
        if machine not in MACHINES:
            raise OSError(f"no system call table for {machine!r}; there are: {', '.join(MACHINES)}")
        code = assemble(MACHINES.index(machine), open_files, more)
        self._code = b"".join(struct.pack("=HBBI", *line) for line in code)
        self._program = _Program(len(code), self._code)
        self._reference = ctypes.byref(self._program)
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def load(self, parent_death_signal: int) -> None:
        """From here on this process can do no more than the filter allows; there is no way back.

        Args:
            parent_death_signal: what this process receives when the one that forked it dies.
        """
        self._call(_PR_SET_PDEATHSIG, parent_death_signal)
        self.refuse_privileges()
        self._call(_PR_SET_SECCOMP, 2, self._reference)

    def refuse_privileges(self) -> None:
        """Gain none by executing a program, in this process and all that it forks; without that no filter is taken."""
        self._call(_PR_SET_NO_NEW_PRIVS, 1)

    def _call(self, option: int, second: object, third: object = 0) -> None:
        if self._prctl(option, second, third, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


def assemble(
    machine: int, open_files: bool, more: Mapping[str, tuple[int | None, int]]
) -> list[tuple[int, int, int, int]]:
    """The filter as instructions (operation, jump if true, jump if false, operand)."""
    tables = {**ALWAYS, **more, **(READING if open_files else {})}
    allowed: Sequence[int] = sorted({n for n in (row[machine] for row in tables.values()) if n is not None})
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if MACHINES[machine] == "x86_64":
        code += [(_GREATER_EQUAL, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    if open_files:
        for call, argument in ((OPEN[machine], 1), (OPENAT[machine], 2)):
            if call is not None:
                code += _if_argument(call, argument, (_ANY_BIT, 1, 0, _WRITING))
    code += _if_argument(IOCTL[machine], 1, (_EQUAL, 0, 1, TCGETS))
    code += [(_EQUAL, 0, 1, CLONE3), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    return [*code, *_search(allowed)]


def _search(allowed: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Allow these numbers and no others. The kernel runs a filter once for every number when it is loaded, in front of
    every program: by halves this takes a tenth of the steps."""
    # From which number on the answer is another one.
    borders = [n for n in sorted({*allowed, *(n + 1 for n in allowed)}) if (n in allowed) != (n - 1 in allowed)]
    backwards = [(_RETURN, 0, 0, _ERRNO | _EPERM), (_RETURN, 0, 0, _ALLOW)]

    def place(first: int, last: int) -> int:
        """Write the search among some borders; returns its place, counted from the end."""
        if first == last:
            return first % 2  # below the first border nothing is allowed
        middle = (first + last) // 2
        above, below = place(middle + 1, last), place(first, middle)
        here = len(backwards)
        backwards.append((_GREATER_EQUAL, here - 1 - above, here - 1 - below, borders[middle]))
        return here

    place(0, len(borders))
    return backwards[::-1]


def _if_argument(number: int, argument: int, test: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """Allow one call where the low half of an argument passes the test (which jumps over the next line if it fails)."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGS + 8 * argument),
        test,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
    ]

"""What a child does, done once before any is forked: by the zygote, with a program of ours.

The interpreter fills its caches, adapts its code and loads what it needs as it goes. A child that finds this done need
not do it itself, which costs it little time and many pages: it shares all memory with the zygote until it writes to it.
"""

from __future__ import annotations

import _socket
import ctypes
import marshal
import os
import resource
import sys
from typing import Any

from .channel import Channel, ClosedError, framed, pack_trusted
from .child import MESSAGE_BYTES, MODULE, Program
from .codec import Encoder
from .seccomp import Filter

LARGEST = 1 << 16  # bytes; smaller than what the C library maps on its own
SMALL, POOL, POOL_HEADER = 512, 1 << 14, 64  # bytes; what these are in other interpreters costs time, nothing else
MOST_FILLERS = 20_000
_fillers: list[bytes] = []
ROUNDS = 12  # code is adapted after eight calls
# A bit of everything that short programs are made of.
SAMPLE = """
from typing import Dict, List, Optional, Tuple
import math

def other(x):
    return x

def sample(numbers: List[float], mode: int = 0, *more) -> Optional[list]:
    ''' Text. '''
    if mode == 1:
        raise ValueError("no")
    if isinstance(numbers, str):
        words = numbers.lower().replace(",", " ").strip().split(" ")
        return " ".join(sorted(word[::-1] for word in words if word.isalpha()))
    for i, one in enumerate(numbers):
        for j in range(i):
            if i != j and abs(one - numbers[j]) < 0.1:
                return True
    counts: Dict[str, int] = {}
    for letter in "abc":
        counts[letter] = counts.get(letter, 0) + ord(letter) % 7
    first, *rest = sorted(numbers, key=lambda value: -value)
    rest.append(math.floor(other(first) / 2) + len(more))
    while rest and rest[-1] > 9:
        rest.pop()
    pair = max(rest), min(first, 3)
    return [rest, counts, (first, 2.5, "x" * 2, None), {1, 2}, pair, sum(n**2 for n in rest), str(first)]
"""
CALLS: list[tuple[list[Any], dict[str, Any]]] = [
    ([[1.5, 2.5, 3.5]], {}),
    ([[1, 2, 3]], {}),
    ([[1, 2, 2]], {}),
    (["Some words, not many"], {}),
    ([[1]], {"mode": 1}),
    ([[4, 5, -6], 2, {"a": (True, None)}], {}),
]


def rehearse(program: Program, limits: dict[str, Any], filter_: Filter | None) -> None:
    """Be a child in every respect but what cannot be undone."""
    for _ in range(ROUNDS):
        _confine(filter_)
        _run(program, limits)


def fill_holes() -> None:
    """Use up the free memory between what is allocated, for good: what a child allocates lies side by side then, on few
    pages, many of which need not be copied."""
    _fill_pools()
    malloc, free = ctypes.PyDLL(None).malloc, ctypes.PyDLL(None).free
    malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    end = malloc(LARGEST)  # most memory in use lies below
    for size in range(LARGEST, 0, -16):
        while (block := malloc(size)) < end:
            pass
        free(block)
    free(end)


def _fill_pools() -> None:
    """The interpreter's own memory for small objects: pools of 16 KiB, each for objects of one size. Afterwards the one
    in use for each size is new, but for its first object."""
    for size in range(SMALL, 0, -16):
        for _ in range(MOST_FILLERS):
            block = bytes(max(0, size - sys.getsizeof(b"")))
            _fillers.append(block)
            if id(block) % POOL < POOL_HEADER:
                break


def _confine(filter_: Filter | None) -> None:
    """The functions that ``child.confine`` calls."""
    fd = os.dup(1)
    os.dup2(1, fd, False)
    os.closerange(fd, fd + 1)
    for what in (resource.RLIMIT_CPU, resource.RLIMIT_NPROC):
        resource.setrlimit(what, resource.getrlimit(what))
    if filter_ is not None:
        filter_.refuse_privileges()


def _run(program: Program, limits: dict[str, Any]) -> None:
    code = marshal.dumps(compile(SAMPLE, "<sample>", "exec", dont_inherit=True))
    encoder = Encoder(limits["items"], limits["depth"])
    calls = [
        (number, [encoder.encode(value) for value in args], kwargs)
        for number, (args, kwargs) in enumerate(CALLS, start=1)
    ]
    job = pack_trusted(("sample", [], None)) + framed(marshal.dumps([code, code]))
    for ahead in (calls, []):
        ours, theirs = _socket.socketpair()
        ours.sendall(job + pack_trusted(ahead) + b"".join(map(pack_trusted, calls)))
        ours.shutdown(_socket.SHUT_WR)
        try:
            program.serve(Channel(theirs.fileno(), MESSAGE_BYTES, trusted=True))
        except ClosedError:
            del sys.modules[MODULE]
        ours.close()
        theirs.close()

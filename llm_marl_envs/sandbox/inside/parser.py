"""The process that reads programs: finds the code in responses, looks at the syntax trees, compiles. It executes none.

A parser can be made to crash or to need much, so that it is no part of the trusted side; but since it executes nothing
it need not be made anew for every program, which would cost more than reading does. One that misbehaves is killed and
replaced.

Messages: ``{"main": [name, text], "helpers": [[name, text], ...], "preamble"}`` to it, marshalled. From it first, in
JSON, ``{"structure", "error"}``: what ``structure.inspect`` found, and the error of the main part, or None. Then the
code for a child, which the checker passes on unread: a marshalled list with marshalled code of preamble, helpers and
main, or None for what is no Python. None of this comes from a program that was executed.
"""

from __future__ import annotations

import functools
import gc
import marshal
from typing import Any

from . import extraction, structure
from .channel import Channel, ClosedError, pack, pack_trusted
from .child import CHANNEL_FD, MESSAGE_BYTES, confine
from .seccomp import Filter
from .trees import parse

READS = 2_000  # programs, after which a fresh parser takes over


def serve(fd: int, filter_: Filter | None) -> None:
    """Be the parser: returns when the checker is gone."""
    confine(fd, filter_, cpu_seconds=None)
    gc.set_threshold(100_000)  # syntax trees are many objects and hold no cycles
    channel = Channel(CHANNEL_FD, MESSAGE_BYTES, trusted=True)
    try:
        while True:
            channel.send_bytes(_read(channel.receive()))
    except ClosedError:
        return


def _read(program: dict[str, Any]) -> bytes:
    main, text = program["main"]
    helpers = [(name, extraction.extract(part, name)) for name, part in program["helpers"]]
    source = extraction.extract(text, main)
    code, error = _compiled(source, main)
    codes = [_preamble(program["preamble"]), *(_compiled(part, name)[0] for name, part in helpers), code]
    compiled = [part for (_, part), code in zip([*helpers, (main, source)], codes[1:], strict=True) if code is not None]
    facts = structure.inspect((main, source), helpers, compiled)
    parse.cache_clear()  # trees are large, and no later program is to have less memory for them
    return pack({"structure": facts, "error": error}) + pack_trusted(codes)


@functools.lru_cache(maxsize=512)
def _preamble(source: str) -> bytes | None:
    return _compiled(source, "preamble")[0]


def _compiled(source: str, name: str) -> tuple[bytes | None, dict[str, Any] | None]:
    """Code, or what is wrong with it."""
    try:
        code = marshal.dumps(compile(source, f"<{name}>", "exec", dont_inherit=True))
    except SyntaxError as error:
        return None, _problem(error, str(error.msg), name, error.lineno)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return None, _problem(error, str(error), name, None)  # too deep, a NUL ...: there is no program either
    return code, None


def _problem(error: Exception, message: str, part: str, line: int | None) -> dict[str, Any]:
    return {"type": type(error).__name__, "message": message[:300], "line": line, "part": part, "syntax": True}

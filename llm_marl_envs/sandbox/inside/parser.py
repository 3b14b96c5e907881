"""The process that reads programs: finds the code in responses, looks at the syntax trees, compiles. It executes none.

A parser can be made to crash or to need much, so that it is no part of the trusted side; but since it executes nothing
it need not be made anew for every program, which would cost more than reading does. One that misbehaves is killed and
replaced.

Messages: ``{"main": [name, text], "helpers": [[name, text], ...], "preamble"}`` to it; from it ``{"structure", "code",
"error"}``: what ``structure.inspect`` found; for preamble, helpers and main marshalled code in base64, or None where it
is no Python; and the error of the main part, or None. None of this comes from a program that was executed.
"""

from __future__ import annotations

import binascii
import functools
import marshal
from typing import Any

from . import extraction, structure
from .channel import ClosedError
from .child import confine, prepared_channel
from .seccomp import Filter

READS = 2_000  # programs, after which a fresh parser takes over


def serve(fd: int, limits: dict[str, Any], filter_: Filter | None) -> None:
    """Be the parser: returns when the checker is gone."""
    confine(fd, filter_, cpu_seconds=None)
    channel = prepared_channel()
    try:
        while True:
            channel.send(_read(channel.receive()))
    except ClosedError:
        return


def _read(program: dict[str, Any]) -> dict[str, Any]:
    main, text = program["main"]
    helpers = [(name, extraction.extract(part, name)) for name, part in program["helpers"]]
    source = extraction.extract(text, main)
    code, error = _compiled(source, main)
    return {
        "structure": structure.inspect((main, source), helpers),
        "code": [_preamble(program["preamble"]), *(_compiled(part, name)[0] for name, part in helpers), code],
        "error": error,
    }


@functools.lru_cache(maxsize=512)
def _preamble(source: str) -> str | None:
    return _compiled(source, "preamble")[0]


def _compiled(source: str, name: str) -> tuple[str | None, dict[str, Any] | None]:
    """Code, or what is wrong with it."""
    try:
        code = marshal.dumps(compile(source, f"<{name}>", "exec", dont_inherit=True))
    except SyntaxError as error:
        return None, _problem(error, str(error.msg), name, error.lineno)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return None, _problem(error, str(error), name, None)  # too deep, a NUL ...: there is no program either
    return binascii.b2a_base64(code, newline=False).decode("ascii"), None


def _problem(error: Exception, message: str, part: str, line: int | None) -> dict[str, Any]:
    return {"type": type(error).__name__, "message": message[:300], "line": line, "part": part, "syntax": True}

"""Syntax trees of any text: parsing that never raises.

Standard library only. Nothing is executed or imported here, whatever the text says.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

# Python's parser takes neither; it says so in other words from version to version, and without a place.
_UNENCODABLE = re.compile("[\0\ud800-\udfff]")
# How often a text is cut shorter to find its good beginning. An error of the tokenizer hides an earlier one of the
# parser, and cutting inside brackets makes one more: ordinary text needs two or three.
_CUTS = 6
_INDENTED = re.compile(r"[ \t\f#]|$")
_CONTINUES = re.compile(r"[ \t\f)\]}#]|$|(?:elif|else|except|finally)\b")


class Problem(NamedTuple):
    """Why a text is no Python. Line and column count from 1; None where the parser names no place."""

    type: str
    line: int | None
    column: int | None
    message: str


@functools.lru_cache(maxsize=32)
def parse(source: str) -> ast.Module | Problem:
    """The tree of ``source``, or the first error in it; never raises.

    Kept until ``parse.cache_clear()``, since whoever finds code in a text parses it, and whoever looks at it again.
    ``RecursionError`` and ``MemoryError`` are what the parser answers to code that is nested too deeply.
    """
    if found := _UNENCODABLE.search(source):
        before = source[: found.start()]
        what = "a null byte" if found[0] == "\0" else f"a lone surrogate, U+{ord(found[0]):04X}"
        line = before.count("\n") + 1
        return Problem("ValueError", line, found.start() - before.rfind("\n"), f"the code contains {what}")
    return _guarded(lambda: ast.parse(source), source)


def compiles(tree: ast.Module, source: str) -> Problem | None:
    """The first error that Python finds in a tree after parsing: a ``return`` outside a function, for instance.

    The code is compiled and thrown away, never run. The compiler copies a ``finally`` block to every way out of its
    ``try``, which hostile code can multiply without end; so such blocks are moved to where they are compiled once.
    """
    if "finally" in source:
        again = parse.__wrapped__(source)  # a tree of its own, which is changed
        if isinstance(again, Problem):
            return again
        tree = again
        for node in ast.walk(tree):
            if isinstance(node, ast.Try | ast.TryStar) and node.finalbody:
                if node.handlers:
                    node.orelse += node.finalbody
                else:
                    node.handlers = [ast.copy_location(ast.ExceptHandler(None, None, node.finalbody), node)]
                node.finalbody = []
    result = _guarded(lambda: compile(tree, "<part>", "exec", dont_inherit=True, optimize=0), source)
    return result if isinstance(result, Problem) else None


def _guarded(action: Callable[[], Any], source: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a string: a SyntaxWarning, or an error where the caller says so
            return action()
    except SyntaxError as error:
        last = source.count("\n") + 1
        line = None if error.lineno is None else min(max(1, error.lineno), last)
        column = None if error.offset is None else max(1, error.offset)
        return Problem(type(error).__name__, line, column, str(error.msg)[:200])
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return Problem(type(error).__name__, None, None, str(error)[:200] or "nested too deeply")


def good_start(source: str, problem: Problem) -> tuple[str, ast.Module]:
    """The longest run of complete top-level statements before the first error of ``source``, and its tree.

    Where the parser names no place for its error, or after six attempts, it is empty.
    """
    lines = source.split("\n")
    for _ in range(_CUTS):
        if problem.line is None:
            break
        cut = min(problem.line, len(lines)) - 1
        if _INDENTED.match(lines[cut]):  # within a statement, which began where no other goes on
            while cut > 0 and _CONTINUES.match(lines[cut]):
                cut -= 1
        lines = lines[:cut]
        start = "\n".join(lines)
        parsed = parse(start)
        if isinstance(parsed, ast.Module):
            return start, parsed
        problem = parsed
    return "", ast.Module(body=[], type_ignores=[])

"""Find the Python code in a model's response.

Standard library only, and nothing is executed. The time grows about linearly with the text: every pattern is anchored
to a line, and code between prose is parsed until a bounded number of characters is used up.
"""

from __future__ import annotations

import ast
import os.path
import re

from .structure import defines
from .trees import Problem, good_start, parse

# A tag next to a quotation mark is text about the tag: a program may handle such tags.
_TAG = re.compile(r"(?<![\"'`])<(/?)think>(?![\"'`\\])")
_FENCE = re.compile(r"([ \t]*)(```+|~~~+)([^`]*)")
# A line with which code may begin: "from the list" and "class of 2020" are prose.
_CODE = re.compile(
    r"^(?:(?:async[ ]+)?def[ ]+\w+[ ]*[(\[]|class[ ]+\w+[ ]*[(:\[]|import[ ]+[\w.]+|from[ ]+[\w.]+[ ]+import\b|@\w"
    r"|[^\W\d]\w*[ ]*(?::[^=\n]{1,99})?=(?!=))",
    re.MULTILINE,
)
# With these lines a program goes on rather than prose; many words of prose do, too, without the colon.
_MORE_CODE = re.compile(rf"{_CODE.pattern}|^(?:if|for|while|with|try|match)\b[^\n]*:[ ]*$", re.MULTILINE)
_MAX_PARSED = 400_000  # characters parsed in search of code between prose: under a second


def extract(text: str, wanted: str) -> str:
    r"""The Python code in a response that is to define the function ``wanted``; it need not be valid.

    1. A byte order mark goes, ``\r\n`` and ``\r`` become ``\n``. A text that now is Python and defines ``wanted`` at
       top level is taken whole, whatever else is in its strings and comments.
    2. Thinking goes: ``<think>...</think>``, a ``<think>`` at the start that is never closed, and everything up to a
       ``</think>`` that was never opened. Tags next to a quotation mark or a backtick are text.
    3. Of fenced blocks (three or more backticks or tildes, any info string) that which defines ``wanted`` wins, the
       last if there are several; else the last that defines it before a syntax error; else the last that is Python;
       else the last. Blank ones do not count. A block ends at a bare fence that is indented no deeper than its first
       line (any bare fence, if otherwise no block defines ``wanted``), at a fence with an info string, which
       begins another block, or with the text. Indented fences below a line of unfenced code are part of that code (of
       a docstring, say). What all lines of a block are indented by is taken off.
    4. Without fences the whole text, if it is Python, or becomes so when what all its lines are indented by is taken
       off.
    5. Else code between prose: a run of lines that begins with ``def``, ``class``, ``import``, ``from ... import``,
       ``@`` or ``name =`` in column 0 and goes on over complete statements, up to the first line that is no Python.
       The longest run that defines ``wanted`` wins. Words at its end that happen to be Python (``Note``,
       ``Note: this``) are cut off. A run before a line that begins with code, too, is a program with an error, not
       code before prose, and does not count.
    6. Else the whole text, so that its syntax error is reported.

    Blank lines around the code are cut off; nothing else is changed, joined or repaired. Never raises.

    Example:
        >>> extract("Sure:\n```python\ndef aux(x):\n    return x\n```\nCall it so:\n```\naux(3)\n```", "aux")
        'def aux(x):\n    return x'
    """
    text = _trimmed(text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    tree = parse(text)
    if "think>" in text and not _defines(tree, wanted):
        text = _trimmed(_without_thinking(text).lstrip("\ufeff"))
        tree = parse(text)
    if _defines(tree, wanted) and not _has_tildes(tree):
        return text
    lines = text.split("\n")
    if blocks := _blocks(lines, strict=True):
        return _best(blocks, _blocks(lines, strict=False), wanted)
    if isinstance(tree, Problem) and isinstance(parse(dedented := _dedented(lines)), ast.Module):
        return dedented
    if isinstance(tree, ast.Module):
        return text
    return _between_prose(text, wanted) or text


def _defines(tree: ast.Module | Problem, wanted: str) -> bool:
    return isinstance(tree, ast.Module) and defines(tree, wanted)


def _has_tildes(tree: ast.Module | Problem) -> bool:
    """Whether there is a fence that happens to be Python: ``~~~python`` inverts a name three times."""
    return isinstance(tree, ast.Module) and any(
        isinstance(s, ast.Expr) and isinstance(s.value, ast.UnaryOp) and isinstance(s.value.op, ast.Invert)
        for s in tree.body
    )


def _trimmed(text: str) -> str:
    """Without blank lines around it. The first line keeps its indentation."""
    text = text.rstrip(" \t\n\f")
    blank = len(text) - len(text.lstrip(" \t\n\f"))
    return text[text.rfind("\n", 0, blank) + 1 :]


def _dedented(lines: list[str]) -> str:
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line.strip()]
    margin = os.path.commonprefix(margins)
    return _trimmed("\n".join(line.removeprefix(margin) for line in lines))


def _without_thinking(text: str) -> str:
    kept: list[str] = []
    position, opened = 0, -1  # up to where text was dealt with, where thinking began
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if opened < 0:
                opened = tag.start()
        else:
            # Without an opening tag the prompt held it, and all before is thinking.
            kept = [] if opened < 0 else [*kept, text[position:opened]]
            position, opened = tag.end(), -1
    if opened >= 0 and not "".join([*kept, text[position:opened]]).strip():
        return ""
    return "".join([*kept, text[position:]])


def _blocks(lines: list[str], *, strict: bool) -> list[str]:
    """The fenced blocks that are not blank, dedented."""
    blocks: list[list[str]] = []
    block: list[str] | None = None
    indent, mark, in_code = 0, "", False
    for line in lines:
        fence = _FENCE.fullmatch(line)
        if block is None:
            if fence and not (fence[1] and in_code):
                block, indent, mark = [], len(fence[1]), fence[2][0]
            in_code = in_code or _CODE.match(line) is not None
        elif fence and fence[2][0] == mark and (not strict or len(fence[1]) <= indent):
            blocks.append(block)
            # A fence with an info string opens a block: the one before was not closed.
            block = [] if fence[3].strip() else None
        else:
            block.append(line)
    return [source for block in [*blocks, block or []] if (source := _dedented(block).lstrip("\ufeff"))]


def _best(blocks: list[str], loose: list[str], wanted: str) -> str:
    """See point 3 of :func:`extract`."""
    parsed = [parse(block) for block in blocks]
    for block, tree in zip(reversed(blocks), reversed(parsed), strict=True):
        if _defines(tree, wanted):
            return block
    if loose != blocks:
        for block in reversed(loose):
            if _defines(parse(block), wanted):
                return block
    for block, problem in zip(reversed(blocks), reversed(parsed), strict=True):
        if not isinstance(problem, ast.Module) and defines(good_start(block, problem)[1], wanted):
            return block
    for block, tree in zip(reversed(blocks), reversed(parsed), strict=True):
        if isinstance(tree, ast.Module):
            return block
    return blocks[-1]


def _between_prose(text: str, wanted: str) -> str:
    """See point 5 of :func:`extract`; empty if there is no such run."""
    best, end, left = "", 0, _MAX_PARSED
    for first in _CODE.finditer(text):
        if first.start() < end:
            continue
        rest = text[first.start() :]
        left -= len(rest)
        if left < 0:
            break
        parsed = parse(rest)
        run, tree = (rest, parsed) if isinstance(parsed, ast.Module) else good_start(rest, parsed)
        end = first.start() + len(run)
        if len(run) > len(best) and defines(tree, wanted) and not _MORE_CODE.match(text[end:].lstrip("\n")):
            best = _without_words(run, tree)
    return best


def _without_words(run: str, tree: ast.Module) -> str:
    lines = run.split("\n")
    for statement in reversed(tree.body):
        match statement:
            case ast.Expr(value=ast.Name()) | ast.AnnAssign(value=None) | ast.Expr(value=ast.Tuple()):
                lines = lines[: statement.lineno - 1]
            case _:
                break
    return _trimmed("\n".join(lines))

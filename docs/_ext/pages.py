"""What the generators of pages share: where things are, Markdown in another folder, files that are written."""

from __future__ import annotations

import os
import re
from pathlib import Path

from check import FENCE, LINK, ROOT

DOCS = ROOT / "docs"
#: Everything generated is here. Git ignores it.
REFERENCE = DOCS / "reference"


def moved(text: str, old: Path, new: Path) -> str:
    """Markdown of a file in folder ``old``, for a file in folder ``new``: relative links still lead to the same place.
    Code keeps its text."""

    def moved_link(found: re.Match[str]) -> str:
        start, end = found.span(1)
        target = os.path.relpath(old / found[1], new)
        return found.string[found.start() : start] + target + found.string[end : found.end()]

    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(moved_link, text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, LINK.sub(moved_link, text[last:])])


def block(text: str, kind: str, *options: str) -> str:
    """A fenced block, with a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([f"{fence}{kind}", *options, text.strip("\n"), fence])


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table. Bars and line ends inside a cell are taken care of."""
    lines = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in line] for line in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def write_all(pages: dict[str, str]) -> None:
    """Write ``{docname below reference/: text}`` and remove what earlier builds left. A page that has not changed is
    not touched, so that Sphinx need not read it again."""
    wanted = {REFERENCE / f"{name}.md": text.rstrip("\n") + "\n" for name, text in pages.items()}
    for path in set(REFERENCE.rglob("*.md")) - set(wanted):
        path.unlink(missing_ok=True)
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(f".{os.getpid()}")  # two builds at a time see whole files
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)

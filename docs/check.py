"""``make docs``: the links and the code of the documentation.

Every relative link of the Markdown files must lead to a file, and every block that begins with ```` ```python ```` must
compile. The blocks of one file are run in order, in one namespace and an empty folder. A block that needs what is not
here (a hub, a GPU) is marked ```` ```python no-run ````.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    folders = [ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), (ROOT / "llm_marl_envs").rglob("*.md")]
    return sorted(path for found in folders for path in found)


def broken_links(path: Path) -> list[str]:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return [target for target in LINK.findall(text) if not (path.parent / target).exists()]


def python_blocks(path: Path) -> list[tuple[int, str, bool]]:
    """(line, code, whether to run it) of each Python block."""
    text = path.read_text(encoding="utf-8")
    blocks = []
    for found in FENCE.finditer(text):
        words = found["info"].split()
        if words[:1] == ["python"]:
            blocks.append((text.count("\n", 0, found.start("code")) + 1, found["code"], "no-run" not in words))
    return blocks


def run(path: Path) -> int:
    """Compile all blocks of a file and run those that are to be run; returns how many ran."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    ran = 0
    for line, code, wanted in python_blocks(path):
        # Blank lines in front, so that a traceback names the line of the document.
        compiled = compile("\n" * (line - 1) + code, str(path), "exec")
        if wanted:
            exec(compiled, namespace)
            ran += 1
    return ran


def main() -> int:
    missing = [f"{path.relative_to(ROOT)}: no such file: {link}" for path in documents() for link in broken_links(path)]
    print("\n".join(missing), end="\n" if missing else "")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ran = sum(run(path) for path in documents())
        os.chdir(ROOT)
    print(f"{len(documents())} documents, {ran} blocks of code run, {len(missing)} broken links")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

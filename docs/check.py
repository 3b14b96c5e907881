"""``make docs``: the links, the code and the site of the documentation.

    python docs/check.py                  all three
    python docs/check.py links code       some

*links*: every relative link of the Markdown files must lead to a file. *code*: every block that begins with
```` ```python ```` must compile, and the blocks of one file are run in order, in one namespace and an empty folder; one
that needs what is not here (a hub, a GPU) is marked ```` ```python no-run ````. *html*: Sphinx builds docs/_build/html,
and a warning is an error.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs/_build/html"
#: Folders of docs/ without documents of their own: what is built, and what is generated for that.
BUILT = ("_build", "reference")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """The Markdown files that people wrote."""
    folders = [ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), (ROOT / "llm_marl_envs").rglob("*.md")]
    found = sorted(path for folder in folders for path in folder)
    return [path for path in found if not any(part in BUILT or part.startswith(".") for part in parts_below(path))]


def parts_below(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT).parts[1:]


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


def check_links() -> int:
    missing = [f"{path.relative_to(ROOT)}: no such file: {link}" for path in documents() for link in broken_links(path)]
    print("\n".join([*missing, f"links: {len(documents())} documents, {len(missing)} broken links"]))
    return 1 if missing else 0


def check_code() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ran = sum(run(path) for path in documents())
        os.chdir(ROOT)
    print(f"code: {ran} blocks run")
    return 0


def check_html(site: Path = SITE) -> int:
    """Build the site. All is read anew (``-E``), since Sphinx is silent about what it has read before."""
    if importlib.util.find_spec("sphinx") is None:
        print("html: Sphinx is not installed. Use: pip install '.[docs]'")
        return 1
    command = [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", site]
    code = subprocess.run(command, check=False).returncode
    print(f"html: {site}" if code == 0 else "html: the warnings above are errors")
    return code


CHECKS = {"links": check_links, "code": check_code, "html": check_html}


def main(names: list[str]) -> int:
    if unknown := sorted(set(names) - set(CHECKS)):
        print(f"Unknown: {', '.join(unknown)}. Known: {', '.join(CHECKS)}.")
        return 2
    return max(CHECKS[name]() for name in names or CHECKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

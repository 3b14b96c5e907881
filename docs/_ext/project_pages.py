"""Pages of what stands outside docs/: the repository's Markdown files, and the notebooks."""

from __future__ import annotations

import json
from pathlib import Path

from pages import REFERENCE, ROOT, block, moved

#: File -> docname. Their links are rewritten; nothing else is.
FILES = {
    "README.md": "overview",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "llm_marl_envs/data/README.md": "data",
}


def pages() -> tuple[dict[str, str], dict[Path, str]]:
    """Docname -> text, and file -> docname."""
    found, files = {}, {}
    for name, docname in FILES.items():
        path = ROOT / name
        found[docname] = moved(path.read_text(encoding="utf-8"), path.parent, REFERENCE)
        files[path] = docname
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        docname = f"notebooks/{path.stem}"
        found[docname] = moved(notebook(path), path.parent, REFERENCE / "notebooks")
        files[path] = docname
    return found, files


def notebook(path: Path) -> str:
    """A notebook as Markdown. Outputs are stripped in git, and tests run the cells."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(block(text, "ipython3" if _is_shell(text) else "python") if cell["cell_type"] == "code" else text)
    return "\n\n".join(part for part in parts if part.strip())


def _is_shell(code: str) -> bool:
    return any(line.lstrip().startswith(("!", "%")) for line in code.splitlines())

"""Sphinx extension: writes docs/reference/ before anything is read.

One page for every environment, algorithm and module, the settings that all algorithms share, the notebooks, and the
Markdown files of the repository that do not stand in docs/. ``PAGES`` says which page a file has become.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import algorithm_pages
import api_pages
import environment_pages
import project_pages
from pages import write_all

#: File of the repository -> docname of the page that a reader wants when a link leads to that file.
PAGES: dict[Path, str] = {}


def generate(app: Any) -> None:
    pages: dict[str, str] = {}
    for generator in (environment_pages, algorithm_pages, api_pages, project_pages):
        found, files = generator.pages()
        pages |= found
        PAGES.update({path: f"reference/{name}" for path, name in files.items()})
    write_all(pages)


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-docstring", api_pages.as_rest)
    return {"parallel_read_safe": False}

"""Sphinx extension: links to files and folders that are no pages, and a page for the source of each.

The Markdown files link to code by relative paths, which forges follow. Here such a link leads to the page that the file
has become (``reference.PAGES``), else to a page that shows the file, with numbered lines. A link to a folder of pages
leads to its README, or to the first; to any other folder, to a page that lists its files. Objects of the API link to
their lines.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from docutils import nodes
from pages import DOCS, ROOT
from reference import PAGES
from sphinx import addnodes
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform
from sphinx.util.osutil import relative_uri

LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".cff": "yaml", ".cfg": "ini"}


class FileLinks(SphinxTransform):
    """Before Sphinx and MyST resolve links: they know pages only."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for node in list(self.document.findall(addnodes.download_reference)):
            self._replace(node)
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("reftype") == "myst" and node["reftarget"] not in self.env.found_docs:
                self._replace(node)

    def _replace(self, node: nodes.Element) -> None:
        target, _, anchor = unquote(node["reftarget"]).partition("#")
        if node.get("refdomain") == "doc":  # a Markdown file outside docs/, which MyST takes for a page
            target, anchor = f"{target}.md", node.get("reftargetid") or ""
        here = Path(self.env.doc2path(self.env.docname)).parent
        path = Path(os.path.normpath(here / target))
        if not target or not path.exists() or ROOT not in [path, *path.parents]:
            return  # MyST says what is missing
        docname = PAGES.get(path) or (page_of_folder(self.env, path) if path.is_dir() else None)
        if docname is None:
            docname = show(self.env, path)
        new = nodes.reference("", "", *node.children, internal=True, page=docname, folder=path.is_dir())
        uri = relative_uri(f"{self.env.docname}.html", f"{docname}.html")
        new["refuri"] = uri + (f"#{anchor}" if anchor else "")
        for inner in new.findall(nodes.inline):  # code in a link keeps its looks, but is no download
            inner["classes"] = [c for c in inner["classes"] if c not in ("download", "xref")]
        node.replace_self(new)


def page_of_folder(env: Any, folder: Path) -> str | None:
    """README of a folder of pages, else its first page."""
    if DOCS not in folder.parents:
        return None
    inside = f"{folder.relative_to(DOCS).as_posix()}/"
    found = sorted(name for name in env.found_docs if name.startswith(inside))
    readme = f"{inside}README"
    return readme if readme in found else found[0] if found else None


def show(env: Any, path: Path) -> str:
    """The name of the page that shows a file or folder; remembers to make it."""
    sources(env).setdefault(env.docname, set()).add(path)
    return f"source/{path.relative_to(ROOT).as_posix()}"


def sources(env: Any) -> dict[str, set[Path]]:
    """Docname -> files and folders that it links to."""
    if not hasattr(env, "linked_sources"):
        env.linked_sources = {}
    return env.linked_sources


def link_objects(app: Any, doctree: nodes.document) -> None:
    """[source] at classes and functions of the API."""
    for signature in doctree.findall(addnodes.desc_signature):
        module, name = signature.get("module"), signature.get("fullname")
        if not module or not name:
            continue
        try:
            analyzer = ModuleAnalyzer.for_module(module)
            line = analyzer.find_tags()[name][1]
        except (PycodeError, KeyError):  # made by a decorator or a base class: there is no line to show
            continue
        uri = relative_uri(f"{app.env.docname}.html", f"{show(app.env, Path(analyzer.srcname))}.html")
        link = nodes.reference("", "", internal=True, refuri=f"{uri}#line-{line}", classes=["viewcode-link"])
        link += nodes.inline("", "[source]")
        signature += link


def write_sources(app: Any, exception: Exception | None) -> None:
    """A page for each file and folder that something links to, and for the files of these folders."""
    if exception is not None or app.builder.format != "html":
        return
    written: set[Path] = set()
    for path in set().union(*sources(app.env).values()):
        inside = [path]
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
            _write(app, path, _listing(path, inside))
        for file in set(inside) - written:
            _write(app, file, _highlighted(app, file))
        written.update(inside)


def _write(app: Any, path: Path, body: str) -> None:
    """Plain pages, without the theme: computing its sidebar for hundreds of them would take minutes."""
    name = path.relative_to(ROOT).as_posix()
    target = Path(app.outdir) / f"source/{name}.html"
    top = relative_uri(f"source/{name}.html", "")
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{top}_static/pygments.css"><link rel="stylesheet" href="{top}_static/pages.css"></head>
<body class="source"><h1>{name}</h1>
<p><a href="{top}{app.config.root_doc}.html">{app.config.html_title}</a></p>
{body}
</body></html>
"""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")


def _listing(folder: Path, inside: list[Path]) -> str:
    items = (f'<li><a href="{folder.name}/{p.name}.html"><code>{p.name}</code></a></li>' for p in inside)
    return f"<ul>{''.join(items)}</ul>"


def _highlighted(app: Any, path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    # `force`: some of the tests' attacks are no Python, on purpose.
    language = LANGUAGES.get(path.suffix, "text")
    return app.builder.highlighter.highlight_block(text, language, force=True, linenos="inline", lineanchors="line")


def forget(app: Any, env: Any, docname: str) -> None:
    sources(env).pop(docname, None)


def setup(app: Any) -> dict[str, Any]:
    app.add_transform(FileLinks)
    app.connect("doctree-read", link_objects)
    app.connect("env-purge-doc", forget)
    app.connect("build-finished", write_sources)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

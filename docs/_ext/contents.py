"""Sphinx extension: the lists of README.md files are the tables of contents.

There is one list of all pages, docs/README.md, which forges show too; what a README of a folder links to comes below
it. A page belongs to the nearest README, and stands where that one's lists or tables link to it; a link to a folder
stands for all pages in it. Pages that a folder's README does not link to follow at its end, and generated ones at the
end of docs/README.md; any other page that nobody lists is a warning of Sphinx, so that none is forgotten.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT_PAGE = "README"
GENERATED = "reference/"


class Contents(SphinxTransform):
    """After ``FileLinks``, which says to which page a link to a file leads."""

    default_priority = 410

    def apply(self, **_: Any) -> None:
        here = self.env.docname
        if PurePosixPath(here).name != "README":
            return
        left = {page: None for page in sorted(self.env.found_docs) if parent_of(page, self.env.found_docs) == here}
        captions: dict[str | None, list[str]] = {}
        for link in self._listed():
            for page in self._pages(link):
                page = ancestor_below(here, page, self.env.found_docs)
                if page in left:
                    del left[page]
                    captions.setdefault(self._caption(link) if here == ROOT_PAGE else None, []).append(page)
        rest = [page for page in left if here != ROOT_PAGE or page.startswith(GENERATED)]
        if rest:
            captions.setdefault("Reference" if here == ROOT_PAGE else None, []).extend(rest)
        place = next(self.document.findall(nodes.section), self.document)
        for caption, pages in captions.items():
            place += toctree(here, caption, pages)

    def _listed(self) -> Iterator[nodes.Element]:
        for node in self.document.findall(nodes.Element):
            if isinstance(node, (addnodes.pending_xref, nodes.reference)) and any(
                isinstance(above, (nodes.list_item, nodes.entry)) for above in ancestors(node)
            ):
                yield node

    def _pages(self, link: nodes.Element) -> list[str]:
        """The pages that a link stands for."""
        if isinstance(link, addnodes.pending_xref):
            return [link["reftarget"]] if link.get("refdomain") == "doc" else []
        page = link.get("page")
        if not link.get("folder") or page not in self.env.found_docs:
            return [page] if page else []
        inside = f"{PurePosixPath(page).parent}/"
        found = sorted(name for name in self.env.found_docs if name.startswith(inside))
        return sorted(found, key=lambda name: name != f"{inside}README")

    def _caption(self, link: nodes.Element) -> str | None:
        """The heading above, if it is not the page's title."""
        sections = [above for above in ancestors(link) if isinstance(above, nodes.section)]
        return sections[0].next_node(nodes.title).astext() if len(sections) > 1 else None


def ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    while (node := node.parent) is not None:
        yield node


def parent_of(page: str, found: set[str]) -> str | None:
    """The nearest README above a page."""
    folder = PurePosixPath(page).parent
    if PurePosixPath(page).name == "README":
        if folder == PurePosixPath("."):
            return None
        folder = folder.parent
    while f"{folder}/README".removeprefix("./") not in found:
        folder = folder.parent
    return f"{folder}/README".removeprefix("./")


def ancestor_below(here: str, page: str, found: set[str]) -> str | None:
    """The page itself, or the README above it that belongs to ``here``: a link into a folder places the folder."""
    above: str | None = page
    while above is not None and parent_of(above, found) != here:
        above = parent_of(above, found)
    return above


def toctree(here: str, caption: str | None, pages: list[str]) -> nodes.compound:
    """What the directive ``toctree`` makes: hidden, since the list itself is on the page."""
    node = addnodes.toctree(
        parent=here,
        entries=[(None, page) for page in pages],
        includefiles=pages,
        maxdepth=-1,
        caption=caption,
        rawcaption=caption,
        glob=False,
        hidden=True,
        includehidden=False,
        numbered=0,
        titlesonly=True,
    )
    return nodes.compound("", node, classes=["toctree-wrapper"])


def first_page(app: Any, exception: Exception | None) -> None:
    """A browser that is given the folder shows index.html."""
    if exception is None and app.builder.format == "html":
        shutil.copy(Path(app.outdir) / f"{ROOT_PAGE}.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> dict[str, Any]:
    app.add_transform(Contents)
    app.connect("build-finished", first_page)
    return {"parallel_read_safe": True}

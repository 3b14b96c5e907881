"""Settings of Sphinx. ``make docs`` builds; README.md is the first page and the one list of all pages."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
# The working tree is what is documented, installed or not. docs/ itself: check.py knows what a link and a fence are.
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS), str(DOCS.parent), str(DOCS.parent / "baselines")]

import llm_marl_envs  # noqa: E402

project = "llm-marl-envs"
author = "The llm-marl-envs contributors"
copyright = f"{author}, Apache-2.0"  # noqa: A001
release = version = llm_marl_envs.__version__

root_doc = "README"
exclude_patterns = ["_build", "_ext", "_static", "**/.*", "recipes/**/.venv"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference", "links", "contents"]

# Forges make an anchor of every heading; so do we, down to the level that pages link to.
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_inherit_docstrings = False  # those of other libraries are in other markup
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# A dataclass lists its fields under "Attributes:"; as :ivar: they are not described twice.
napoleon_use_ivar = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"llm-marl-envs {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sourcelink = False
highlight_language = "text"
smartquotes = False  # docstrings show calls and commands as they are typed

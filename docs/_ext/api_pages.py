"""The API: a page for every package of both distributions, with its public modules, from their docstrings."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import environment_pages
from pages import table

PACKAGES = ("llm_marl_envs", "llm_marl_baselines")
#: ``inside`` runs in the sandbox's processes and is imported by nobody else; commands are reached as `llm-marl`.
LEFT_OUT = ("inside", "commands", "__main__")
_TWO_COLUMNS = re.compile(r"(``[^`]+``)\s{2,}(\S.*)")


def pages() -> tuple[dict[str, str], dict[Path, str]]:
    """Docname -> text. No file becomes a page: a link to a module's file leads to its source."""
    found = {}
    lines = ["# Modules", "", "Names with a leading underscore may change without notice.", ""]
    for package in PACKAGES:
        top = import_module(package)
        lines += [f"## {package}", "", first_sentence(top), ""]
        if names := getattr(top, "__all__", []):
            lines += [f"`from {package} import ...`:", "", _names(top, names), ""]
        rows = []
        for folder, members in modules(package).items():
            found[f"api/{folder}"] = _page(folder, members)
            for module in members:
                place = f"{folder}.md#{_anchor(module.__name__)}"
                rows.append([f"[`{module.__name__}`]({place})", first_sentence(module)])
        lines += [table(["module", "what it is"], rows), ""]
    found["api/README"] = "\n".join(lines)
    return found, {}


def modules(package: str) -> dict[str, list[ModuleType]]:
    """Package -> itself and its public modules, in order: a page each."""
    top = import_module(package)
    found: dict[str, list[ModuleType]] = {package: [top]}
    for info in sorted(pkgutil.walk_packages(top.__path__, f"{package}."), key=lambda info: info.name):
        if not any(part in LEFT_OUT or part.startswith("_") for part in info.name.split(".")):
            folder = info.name if info.ispkg else info.name.rpartition(".")[0]
            found.setdefault(folder, []).append(import_module(info.name))
    return found


def first_sentence(thing: Any) -> str:
    """Of the docstring, as Markdown."""
    text = (inspect.getdoc(thing) or "").lstrip("# ").partition("\n\n")[0]
    return " ".join(text.replace("``", "`").split())


def as_rest(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """What autodoc is told of a docstring: Markdown tables become tables of reStructuredText, which docstrings are
    written in otherwise. A module whose docstring is an environment's page, all in Markdown, refers to that page."""
    if what == "module" and lines and (page := environment_pages.page_of(name)):
        lines[:] = [f"Its docstring is a page: :doc:`/reference/{page}`.", ""]
    found: list[str] = []
    for is_table, group in groupby(_bullets(lines), lambda line: line.lstrip().startswith(("| ", "|-"))):
        part = list(group)
        found += _list_table(part) if is_table else part
    lines[:] = found


def _bullets(lines: list[str]) -> list[str]:
    """Lines of two columns, the first of them a name in backticks, as a list: names would run into a paragraph."""
    if any(line.startswith("===") for line in lines):  # such lines are rows of a table already
        return lines
    found: list[str] = []
    inside = False
    for line in lines:
        if row := _TWO_COLUMNS.fullmatch(line):
            found += [f"- {row[1]}: {row[2]}"] if inside else ["", f"- {row[1]}: {row[2]}"]
            inside = True
        elif inside and line.startswith("    "):
            found.append(f"  {line.strip()}")
        else:
            found += ["", line] if inside and line.strip() else [line]
            inside = False
    return found


def _list_table(lines: list[str]) -> list[str]:
    """A Markdown table as a ``list-table``; anything else that begins with bars stays as it is."""
    if len(lines) < 3 or set(lines[1].strip()) - set("|-: "):
        return lines
    found = ["", ".. list-table::", "   :header-rows: 1", ""]
    for line in [lines[0], *lines[2:]]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        found += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells)]
    return [*found, ""]


def _page(folder: str, members: list[ModuleType]) -> str:
    return "\n".join([f"# {folder}", "", *(line for module in members for line in _section(module))])


def _section(module: ModuleType) -> list[str]:
    """What autodoc makes of one module. What a package gathers from elsewhere is described there, and listed here."""
    name, names = module.__name__, getattr(module, "__all__", [])
    lines = [f"({_anchor(name)})=", "", f"## {name}", "", "```{eval-rst}", f".. automodule:: {name}"]
    if not names:
        return [*lines, "```", ""]
    lines += ["   :no-members:", ""]
    for own in names:
        thing = getattr(module, own)
        if getattr(thing, "__module__", "") == name:
            lines += [f".. auto{'class' if inspect.isclass(thing) else 'function'}:: {name}.{own}", ""]
    return [*lines, "```", "", f"`from {name} import ...`:", "", _names(module, names), ""]


def _anchor(module: str) -> str:
    return module.replace(".", "-").replace("_", "-")


def _names(module: ModuleType, names: list[str]) -> str:
    """A table of the names that a package exports, each linked to where it is defined."""
    rows = []
    for name in names:
        thing = getattr(module, name)
        kind = "class" if inspect.isclass(thing) else "func" if inspect.isroutine(thing) else "data"
        home = getattr(thing, "__module__", module.__name__)
        rows.append([f"{{py:{kind}}}`{name} <{home}.{name}>`", first_sentence(thing) if kind != "data" else ""])
    return table(["name", "what it is"], rows)

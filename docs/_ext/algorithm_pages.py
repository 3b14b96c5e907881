"""A page for every name of the table of algorithms, and one for the settings that all of them share.

Values and explanations are those of `llm-marl train NAME --help`; nothing is written down a second time.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

from pages import DOCS, block, table

from llm_marl_baselines.algorithms import ALGORITHMS, CAPABILITIES, Capabilities
from llm_marl_baselines.config import packaged_configs
from llm_marl_baselines.settings import make_parser

REWARDS = {"joint": "one for all agents; different ones are an error", "own": "each agent its own"}
_COMMON = """# Settings of a run

Every setting can stand in a YAML file (`--config FILE`) or on the command line, which wins: `--optim.lr 1e-4` is
`optim: {lr: 1e-4}`. `--print_config` prints them all, and a run keeps its own in `config.yaml`. The settings under
`algorithm.` are on [each algorithm's page](algorithms/README.md).
"""
_SKIPPED = ("help", "config", "print_config")


def pages() -> tuple[dict[str, str], dict[Path, str]]:
    """Docname -> text; no file has become one of these pages."""
    found = {f"algorithms/{name}": _page(name) for name in ALGORITHMS}
    head = "# Algorithms by name\n\nEvery name of `llm-marl train`, with the settings that it starts from. "
    head += "How they work, and what was measured: [the guide](../../algorithms/README.md).\n\n"
    rows = []
    for name, can in CAPABILITIES.items():
        marks = ("yes" if x else "" for x in (can.group, can.critic, can.epochs))
        rows.append([f"[`{name}`]({name}.md)", can.rewards, *marks, can.about])
    columns = ["name", "rewards", "group", "critic", "epochs", "what it does"]
    found["algorithms/README"] = head + table(columns, rows)
    found["settings"] = _common()
    return found, {}


def _page(name: str) -> str:
    algorithm = ALGORITHMS.resolve(name)
    module = import_module(algorithm.__module__)
    family = algorithm.__module__.rpartition(".")[2]
    guide = f"[{family}](../../algorithms/{family}.md)" if (DOCS / f"algorithms/{family}.md").exists() else ""
    about = _sentence(CAPABILITIES[name].about)
    lines = [f"# {name}", "", f"{about} How it works, what it logs, results: {guide}.", ""]
    command = f"llm-marl train {name} --env writing/tldr-v0 --model smollm2\nllm-marl train {name} --help"
    if make_parser(name, algorithm.Config).get_defaults().protocol == "parallel":
        command = f"llm-marl train {name} --env probe/own-word-v0 --model tiny     # a toy game, in seconds\n{command}"
    lines += [block(command, ""), "", "## What it needs", "", _needs(CAPABILITIES[name]), ""]
    packaged = packaged_configs().get(name)
    lines += ["## Where it starts from", ""]
    if packaged:
        lines += [
            "The packaged configuration of this name:",
            "",
            block(packaged.read_text(encoding="utf-8"), "yaml"),
            "",
        ]
    else:
        lines += ["No packaged configuration: the defaults of its class.", ""]
    lines += ["## Settings", "", "Under `algorithm.`; values in bold come from the packaged configuration.", ""]
    own = [(key, *rest) for key, *rest in _settings(name) if key.startswith("algorithm.")]
    lines += [_settings_table(own), "", "All others are [shared](../settings.md).", ""]
    lines += ["## From its source", "", block(inspect.getdoc(module) or "", "{eval-rst}"), ""]
    lines += [f"Class: {{py:class}}`~{algorithm.__module__}.{algorithm.__qualname__}`", ""]
    return "\n".join(lines)


def _needs(can: Capabilities) -> str:
    rows = [
        ["rewards", REWARDS[can.rewards]],
        ["group", "`group_size` of at least 2" if can.group else "none: `group_size=1` will do"],
        ["critic", "trains one" if can.critic else "none"],
        ["passes over a batch", "several, with clipped ratios" if can.epochs else "one"],
    ]
    return table(["", ""], rows)


def _common() -> str:
    """Settings that do not depend on the algorithm."""
    rows = [(key, *rest) for key, *rest in _settings("magrpo") if not key.startswith("algorithm.")]
    return f"{_COMMON}\n{_settings_table(rows)}"


def _settings(name: str) -> list[tuple[str, str, str, bool]]:
    """(key, value it starts from, explanation, whether the packaged configuration set it)."""
    algorithm = ALGORITHMS.resolve(name)
    parser = make_parser(name, algorithm.Config)
    start = parser.get_defaults()
    found = []
    for action in parser._actions:
        key = action.dest
        if key in _SKIPPED or type(action).__name__ == "_ActionConfigLoad":  # the heads of groups
            continue
        value = start.get(key)
        found.append((key, _plain(value), action.help or "", value != action.default))
    return found


def _settings_table(rows: list[tuple[str, str, str, bool]]) -> str:
    cells = []
    for key, value, explanation, packaged in rows:
        shown = f"`{value}`" if value else ""
        cells.append([f"`{key}`", f"**{shown}**" if packaged and shown else shown, explanation.replace("``", "`")])
    return table(["setting", "default", "what it is"], cells)


def _plain(value: Any) -> str:
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."

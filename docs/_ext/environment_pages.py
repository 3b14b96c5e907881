"""A page for every registered environment: the docstring of its module, and a transcript.

The transcript is the first play of its golden file, which `make test` plays again and compares to the letter; so it is
a real episode, and building the documentation needs neither the sandbox nor a data set.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

from pages import ROOT, block, table

from llm_marl_envs import registered
from llm_marl_envs.registry import ENVIRONMENTS

GOLDEN = ROOT / "tests/golden"
_ENTRY = re.compile(r"^(observation|info|action|reward|terminated|truncated) of (\w+): ", re.MULTILINE)
_MADE = re.compile(r"=== make\('(.+?)', \*\*(\{.*\})\), reset\(\*\*(\{.*\})\)")
_TERMS = re.compile(r"terms: \{([^{}]*)\}")


def page_of(module: str) -> str | None:
    """Docname (below reference/) of the first environment whose page is this module's docstring."""
    ids = [env_id for env_id in registered() if str(ENVIRONMENTS[env_id]).partition(":")[0] == module]
    return f"environments/{ids[0].replace('/', '-')}" if ids else None


def pages() -> tuple[dict[str, str], dict[Path, str]]:
    """Docname -> text, and module file -> docname."""
    found: dict[str, str] = {}
    files: dict[Path, str] = {}
    rows = []
    for env_id in registered():
        name = env_id.replace("/", "-")
        module_name, _, function = str(ENVIRONMENTS[env_id]).partition(":")
        module = import_module(module_name)
        found[f"environments/{name}"] = _page(env_id, inspect.getdoc(module) or "", getattr(module, function).__doc__)
        files.setdefault(Path(str(module.__file__)), f"environments/{name}")
        agents, earned = _summary(env_id)
        rows.append([f"[`{env_id}`]({name}.md)", agents, earned])
    head = "# Environments\n\nEach page is the docstring of a module, with an episode that was played.\n\n"
    found["environments/README"] = head + table(["id", "agents", "terms of the score"], rows)
    return found, files


def _page(env_id: str, docstring: str, function: str | None) -> str:
    base = env_id.rpartition("-v")[0]
    title = f"# {base}"
    if not docstring.startswith("# "):  # a module with several environments: its function says which one this is
        about = (function or "").strip().partition("\n\n")[0]
        docstring = f"{title}\n\n{about}\n\n{docstring}"
    elif docstring.partition("\n")[0] != title:
        raise ValueError(f"The page of {env_id} must begin with {title!r}.")
    return f"{docstring}\n\n{_transcript(env_id)}"


def _first_play(env_id: str) -> str:
    text = (GOLDEN / f"{env_id.replace('/', '-')}.txt").read_text(encoding="utf-8")
    return "=== " + text.split("\n=== ")[1].partition("\n--- state")[0]


def _entries(text: str) -> list[tuple[str, str, str]]:
    """(kind, agent, value) of a part of a golden file."""
    found = list(_ENTRY.finditer(text))
    ends = [entry.start() for entry in found[1:]] + [len(text)]
    return [(m[1], m[2], text[m.end() : end].strip("\n")) for m, end in zip(found, ends, strict=True)]


def _summary(env_id: str) -> tuple[str, str]:
    """Agents and terms, as they stand in the play."""
    entries = _entries(_first_play(env_id))
    agents = [agent for kind, agent, _ in entries if kind == "observation"]
    terms = next(found[1] for kind, _, value in entries if kind == "info" and (found := _TERMS.search(value)))
    names = [term.partition(":")[0] for term in terms.split(", ")]
    return ", ".join(f"`{agent}`" for agent in dict.fromkeys(agents)), ", ".join(f"`{name}`" for name in names)


def _transcript(env_id: str) -> str:
    """The first play of the golden file, for readers."""
    start, *turns = _first_play(env_id).split("\n--- turn ")
    made = _MADE.match(start)
    if made is None:
        raise ValueError(f"The golden file of {env_id} does not begin with a play.")
    call = f"env = make({_arguments(made[2], made[1])})\nenv.reset({_arguments(made[3])})"
    lines = ["## Transcript", "", "An episode of the tests, which play it again and compare every letter.", ""]
    if "data=..." in call:
        lines += ["Its row was written for the tests; `...` stands for it.", ""]
    lines += [block(call, "python"), ""]
    lines += _shown(start, "observation", "sees")
    for number, turn in enumerate(turns, start=1):
        lines += [f"### Turn {number}", "", *_shown(turn, "action", "writes")]
        # What is told after the last turn is only that it was the last.
        lines += _shown(turn, "observation", "sees") if number < len(turns) else []
        lines += [_earned(turn), ""]
    return "\n".join(lines)


def _arguments(keywords: str, *first: str) -> str:
    """Keywords of a call, from the dict that the golden file shows; ``data`` is left out there."""
    values = {key: ... if value == "..." else value for key, value in ast.literal_eval(keywords).items()}
    named = [f"{key}={'...' if value is ... else repr(value)}" for key, value in values.items()]
    return ", ".join([*(f'"{name}"' for name in first), *named])


def _shown(text: str, kind: str, verb: str) -> list[str]:
    lines = []
    for found, agent, value in _entries(text):
        if found == kind:
            lines += [f"`{agent}` {verb}:", "", block(value, "{code-block} text", ":class: transcript", ""), ""]
    return lines


def _earned(turn: str) -> str:
    """Rewards and terms of a turn."""
    entries = _entries(turn)
    rewards = {agent: float(value) for kind, agent, value in entries if kind == "reward"}
    terms = next(found[1] for kind, _, value in entries if kind == "info" and (found := _TERMS.search(value)))
    same = len(set(rewards.values())) == 1
    paid = f"{next(iter(rewards.values())):.3f} to each agent" if same else str(rewards)
    values = [term.split(": ") for term in terms.split(", ")]
    return f"Reward: {paid}.\n\n" + table(["term", "earned"], [[f"`{name}`", f"{float(v):.3f}"] for name, v in values])

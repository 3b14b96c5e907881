"""``llm-marl list``: what is registered, and where it comes from."""

from __future__ import annotations

import argparse

from llm_marl_envs.feedback import MODES
from llm_marl_envs.plugins import everything
from llm_marl_envs.tables import Table
from llm_marl_envs.wrappers import PROTOCOLS

from ..algorithms import ALGORITHMS, CAPABILITIES
from ..config import packaged_configs
from ..metrics import METRICS


def main(args: list[str]) -> int:
    argparse.ArgumentParser(
        prog="llm-marl list",
        description=f"{__doc__} What no table lists is named package.module:Thing: docs/extending.",
        allow_abbrev=False,
    ).parse_args(args)
    listed, broken = everything()
    print("environments (--env):")
    for one in listed:
        print(f"  {one.env_id:24} {one.target:48} {one.source}".rstrip())
    for plugin in broken:
        print(
            f"  {plugin.source}: its module {plugin.module} cannot be imported, so what it registers is missing here:\n"
            f"    {plugin.error}"
        )
    _show("protocols (--protocol)", PROTOCOLS)
    _show("feedback between turns (--feedback)", MODES)
    print("\nalgorithms:        rewards  group  critic  epochs")
    for name in ALGORITHMS:
        if (can := CAPABILITIES.get(name)) is None:
            print(f"  {name:16} {ALGORITHMS[name]}")
            continue
        marks = (can.rewards, *("yes" if x else "-" for x in (can.group, can.critic, can.epochs)))
        print(f"  {name:16} {marks[0]:8} {marks[1]:6} {marks[2]:7} {marks[3]:6} {can.about}")
    print(
        "  rewards: joint, or each agent's own; group: group_size of 2 at least; epochs: several passes over a batch.\n"
        "  Each samples anew for every update (on-policy)."
    )
    _show("metrics of texts (eval --metrics)", METRICS)
    print("\nconfigurations (--config; one of an algorithm's name is where it starts from):")
    for name, path in packaged_configs().items():
        print(f"  {name:24} {path}")
    print("\nYour own stands wherever a name of a table does, as package.module:Thing (docs/extending).")
    return 0


def _show(heading: str, table: Table) -> None:
    print(f"\n{heading}:")
    for name in table:
        print(f"  {name:24} {table[name]}")

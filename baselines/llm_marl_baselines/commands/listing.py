"""``llm-marl list``: what is registered, and where it comes from."""

from __future__ import annotations

import argparse

from llm_marl_envs import registered
from llm_marl_envs.registry import ENVIRONMENTS
from llm_marl_envs.wrappers import PROTOCOLS

from ..algorithms import ALGORITHMS, CAPABILITIES
from ..config import packaged_configs


def main(args: list[str]) -> int:
    argparse.ArgumentParser(prog="llm-marl list", description=__doc__, allow_abbrev=False).parse_args(args)
    configs = packaged_configs()
    print("environments:")
    for name in registered():
        print(f"  {name:24} {ENVIRONMENTS[name]}")
    print("\nprotocols (--protocol):")
    for name in PROTOCOLS:
        print(f"  {name:24} {PROTOCOLS[name]}")
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
    print("\nconfigurations (--config; one of an algorithm's name is where it starts from):")
    for name, path in configs.items():
        print(f"  {name:24} {path}")
    return 0

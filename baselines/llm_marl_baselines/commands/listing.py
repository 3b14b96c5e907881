"""``llm-marl list``: what is registered, and where it comes from."""

from __future__ import annotations

import argparse

from llm_marl_envs import registered
from llm_marl_envs.registry import ENVIRONMENTS

from ..algorithms import ALGORITHMS
from ..config import packaged_configs


def main(args: list[str]) -> int:
    argparse.ArgumentParser(prog="llm-marl list", description=__doc__, allow_abbrev=False).parse_args(args)
    for title, rows in (
        ("environments", {e: ENVIRONMENTS[e] for e in registered()}),
        ("algorithms", {a: ALGORITHMS[a] for a in ALGORITHMS}),
        ("configurations", packaged_configs()),
    ):
        print(f"{title}:")
        for name, source in rows.items():
            print(f"  {name:24} {source}")
    return 0

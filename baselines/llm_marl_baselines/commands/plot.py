"""``llm-marl plot RUN... [--to FILE]``: learning curves as a PNG; runs that differ in the seed alone become a band."""

from __future__ import annotations

import argparse
from pathlib import Path

from llm_marl_envs.errors import ConfigError

from ..figures import write_plot
from ..logged import AXES


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="llm-marl plot", description=__doc__, allow_abbrev=False)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folder of a run")
    parser.add_argument("--to", type=Path, default=Path("curves.png"), help="the PNG to write (default: curves.png)")
    parser.add_argument("--x", choices=AXES, default="steps", help="what to draw against (default: steps)")
    given = parser.parse_args(args)
    if given.to.suffix.lower() != ".png":
        raise ConfigError(f"--to must name a .png file, not {given.to}.")
    print(write_plot(given.runs, given.to, given.x))
    return 0

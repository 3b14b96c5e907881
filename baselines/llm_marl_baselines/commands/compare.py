"""``llm-marl compare RUN RUN ... [--to FILE]``: runs held against each other, as one figure and one table.

Runs that differ in their seed alone become one group; each group is compared with the first, row by row. All numbers
come from the runs' logs: the last evaluation of each, on the same held-out rows. The figure has the learning curves and
the final scores with their intervals. Untrained models take part as a run of no steps:
llm-marl train magrpo --steps 0 --protocol single --env ID --model NAME.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from llm_marl_envs.errors import ConfigError

from ..figures import write_comparison
from ..logged import AXES, groups_of
from ..report import render_comparison
from ..results import compare_logged
from ..versions import versions


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="llm-marl compare",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folder of a run")
    parser.add_argument(
        "--to", type=Path, default=Path("comparison.png"), help="the PNG to write (default: comparison.png)"
    )
    parser.add_argument(
        "--x",
        choices=AXES,
        default="steps",
        help="what the curves are drawn against (default: steps): equal steps may be unequal joint actions or tokens",
    )
    parser.add_argument("--json", action="store_true", help="print JSON with everything instead of a table")
    given = parser.parse_args(args)
    if given.to.suffix.lower() != ".png":
        raise ConfigError(f"--to must name a .png file, not {given.to}.")
    groups = groups_of(given.runs)
    found = compare_logged(groups) | {"figure": str(given.to), "versions": versions()}
    write_comparison(found, groups, given.to, given.x)
    if given.json:
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        print(f"{render_comparison(found)}\n\nFigure: {given.to}")
    return 0

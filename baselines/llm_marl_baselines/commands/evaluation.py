"""``llm-marl eval RUN``: repeats the held-out evaluation of a run's newest checkpoint, with the run's own settings."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..run import restore


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="llm-marl eval", description=__doc__, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument("--episodes", type=int, help="sampled episodes of each row (default: the run's eval_episodes)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(args)
    trainer, step = restore(given.run, given.episodes)
    found: dict[str, Any] = {"step": step}
    for phase, greedy in (("sampled", False), ("greedy", True)):
        found[phase] = trainer.run_evaluation(greedy=greedy).summary()
    if given.json:
        print(json.dumps(found, indent=1))
        return 0
    print(f"{given.run}, step {step}: held-out rows")
    print(f"  {'':16} {'sampled':>10} {'greedy':>10}")
    for name in dict.fromkeys([*found["sampled"], *found["greedy"]]):
        values = [found[phase].get(name) for phase in ("sampled", "greedy")]
        print(f"  {name:16} " + " ".join(f"{'-' if v is None else format(v, '.3f'):>10}" for v in values))
    return 0

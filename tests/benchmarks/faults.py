"""Faults done to real runs, and what came of them, as a table.

    python tests/benchmarks/faults.py            all of them, which takes some minutes
    python tests/benchmarks/faults.py kills nan  some of them
    python tests/benchmarks/faults.py --list     their names

Each is done to small runs (the model ``tiny``) in a folder of its own. The outcome is held against a run that nothing was
done to: the same metrics, samples and weights, byte for byte. Exit code 0 if every outcome is right, 1 otherwise. What
this machine cannot do (mount a file system, for one) is said and counts as neither.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "baselines"), str(TESTS / "envs")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import injected_inside  # noqa: E402, F401 (they fill the table)
import injected_outside  # noqa: E402, F401
import torch  # noqa: E402
from injected import FAULTS, Unavailable  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a fault; all if none is named")
    parser.add_argument("--list", action="store_true", help="print the names and leave")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in FAULTS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(FAULTS)}")
    if given.list:
        print("\n".join(f"{name:15} {fault.what}" for name, fault in FAULTS.items()))
        return 0
    torch.set_num_threads(1)
    wrong = []
    print(f"{'fault':15} {'seconds':>7}  {'':11}  what was done -> what came of it")
    for name in given.names or FAULTS:
        begun = time.monotonic()
        verdict, outcome = inject(name)
        print(
            f"{name:15} {time.monotonic() - begun:7.0f}  {verdict:11}  {FAULTS[name].what}\n{'':37}-> {outcome}",
            flush=True,
        )
        if verdict == "WRONG":
            wrong.append(name)
    print(f"\nWRONG: {', '.join(wrong)}" if wrong else "\nNothing lost, nothing wrong.")
    return 1 if wrong else 0


def inject(name: str) -> tuple[str, str]:
    """Do one fault, in a folder that is removed: whether its outcome is right, and the outcome."""
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        try:
            return "right", FAULTS[name].inject(Path(folder))
        except Unavailable as reason:
            return "not possible", str(reason)
        except AssertionError as error:
            return "WRONG", str(error)


if __name__ == "__main__":
    sys.exit(main())

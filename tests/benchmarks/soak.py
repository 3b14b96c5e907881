"""A long run, watched from outside: memory, descriptors, processes and files over thousands of steps.

``python tests/benchmarks/soak.py [--steps 3000] [--most-growth 0.02] [--lasting-seconds 10] [--folder DIR]``

MAGRPO trains the model ``tiny`` as the helper of the two-turn environment ``coding/humaneval-v0``; its partner draws
right, wrong and hostile programs (``tests/baselines/coders.py``), so that every joint action runs code in the sandbox.
Checkpoints, samples, evaluations and TensorBoard's events are written all along. The trainer is a process of its own,
which this one looks at through /proc every second; nothing in it knows that it is watched.

Bounds, from the second tenth of the steps (the first is the warm-up) to the last tenth, each by its median: the memory
of the trainer, and of it and the sandbox's processes, grows by less than ``--most-growth`` (2 %; in short runs
libraries still warm up); descriptors, threads, processes and files do not grow. Into that memory goes what of the
processes lives from the one tenth to the other: the sandbox makes a parser anew every 2,000 programs, and a child for
each. Processes are counted that have lived for ``--lasting-seconds`` (10), as every one does that is forgotten; those
of a program that happens to be checked have not. After the end no process of any age and no temporary file is left, and
the run's folder holds what it should and nothing else. Exit code 0 if all bounds hold, 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PLAYERS = Path(__file__).resolve().parents[1] / "baselines"
EVERY_SECONDS = 1.0
TENTHS = 10
PAGE = os.sysconf("SC_PAGE_SIZE")

# Programs that are killed for their time are killed early, so that 3,000 steps take minutes.
ENV_ARGS = '{"num_turns": 2, "feedback": "diagnosis", "limits": {"cpu_seconds": 0.3, "total_cpu_seconds": 0.5}}'
COMMAND = (
    "train magrpo --env coding/humaneval-v0 --model tiny --policy.main coders:Coder --rows_per_step 1 "
    "--algorithm.group_size 2 --sampling.max_new_tokens 8 --eval_rows 2 --eval_episodes 2 --samples_every 5 --output run"
).split()


@dataclass(frozen=True)
class Sample:
    """What was seen at one moment.

    Attributes:
        step: updates done.
        memory: resident bytes of the trainer.
        workers: resident bytes of each process below it, by its id and start time.
        descriptors: open in the trainer.
        threads: of the trainer.
        processes: below the trainer, those that have lived long enough.
        temporary: files in its folder for temporary files.
        files: in the run's folder, checkpoints included.
    """

    step: int
    memory: int
    workers: dict[tuple[int, str], int]
    descriptors: int
    threads: int
    processes: int
    temporary: int
    files: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--most-growth", type=float, default=0.02, help="of memory, as a share (default: 0.02)")
    parser.add_argument(
        "--lasting-seconds", type=float, default=10, help="from which age processes count (default: 10)"
    )
    parser.add_argument("--folder", help="where to work and to leave the run; by default a folder that is removed")
    args = parser.parse_args()
    if args.folder:
        Path(args.folder).mkdir(parents=True, exist_ok=True)
        return soak(Path(args.folder).resolve(), args.steps, args.most_growth, args.lasting_seconds)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        return soak(Path(folder), args.steps, args.most_growth, args.lasting_seconds)


def soak(folder: Path, steps: int, most_growth: float, lasting: float) -> int:
    """Train in ``folder`` and watch; prints the table and the verdict, and returns the exit code."""
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(PLAYERS), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    more = ["--env_args", ENV_ARGS, "--steps", str(steps)]
    more += ["--eval_every", str(max(1, steps // 10)), "--checkpoint_every", str(max(1, steps // 150))]
    begun = time.monotonic()
    with open(folder / "output.txt", "w") as output:
        trainer = subprocess.Popen(
            [sys.executable, "-m", "llm_marl_baselines", *COMMAND, *more],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        samples, seen = watch(trainer, folder / "run", temporary, lasting)
    seconds = time.monotonic() - begun
    if trainer.returncode != 0:
        print((folder / "output.txt").read_text()[-2000:])
        print(f"The trainer ended with exit code {trainer.returncode}.")
        return 1
    show(samples, steps)
    wrong = [*growth(samples, steps, most_growth), *left_over(folder / "run", temporary, seen, steps)]
    print(f"\n{steps} steps in {seconds:,.0f} s, {len(samples)} samples.")
    for line in wrong:
        print(f"BROKEN: {line}")
    if not wrong:
        print("All bounds hold: nothing grows, and nothing is left behind.")
    return 1 if wrong else 0


def watch(
    trainer: subprocess.Popen[bytes], run: Path, temporary: Path, lasting: float
) -> tuple[list[Sample], dict[int, str]]:
    """Samples until the trainer ends, and every process that was ever below it: its id -> when it started."""
    samples: list[Sample] = []
    seen: dict[int, str] = {}
    since: dict[tuple[int, str], float] = {}  # when each process was first seen
    metrics, place, step = run / "metrics.jsonl", 0, 0
    while trainer.poll() is None:
        time.sleep(EVERY_SECONDS)
        below, now = children(trainer.pid), time.monotonic()
        since = {process: since.get(process, now) for process in below.items()}
        if not metrics.exists():
            continue
        with open(metrics, "rb") as file:
            file.seek(place)
            new = file.read()
        step += new.count(b'"phase": "train"')
        place += len(new)
        seen |= below
        try:
            descriptors = len(os.listdir(f"/proc/{trainer.pid}/fd"))
            threads = len(os.listdir(f"/proc/{trainer.pid}/task"))
        except FileNotFoundError:
            break
        samples.append(
            Sample(
                step,
                memory=resident(trainer.pid),
                workers={(pid, started): resident(pid) for pid, started in below.items()},
                descriptors=descriptors,
                threads=threads,
                processes=sum(now - first >= lasting for first in since.values()),
                temporary=count(temporary),
                files=count(run),
            )
        )
    trainer.wait()
    return samples, seen


def children(pid: int) -> dict[int, str]:
    """All processes below one, of any depth: id -> start time, which tells a process from a later one of its id."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := stat(int(entry))):
            parents.setdefault(int(fields[1]), []).append((int(entry), fields[19]))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child, started in parents.get(waiting.pop(), []):
            found[child] = started
            waiting.append(child)
    return found


def stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third on (state, parent ...); empty if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def resident(pid: int) -> int:
    """Bytes; 0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (FileNotFoundError, ProcessLookupError):
        return 0


def count(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def window(samples: list[Sample], steps: int, tenth: int) -> list[Sample]:
    """The samples of one tenth of the steps, counted from 0. After the last step curves are drawn, by a library that is
    loaded for it, so that those moments count to none."""
    return [s for s in samples if steps * tenth <= s.step * TENTHS < steps * (tenth + 1)]


def median(samples: list[Sample], name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in samples)


def with_workers(found: list[Sample], lasting: set[tuple[int, str]]) -> float:
    """Median of the memory of the trainer and of the processes below it that last."""
    return statistics.median(s.memory + sum(s.workers.get(process, 0) for process in lasting) for s in found)


def show(samples: list[Sample], steps: int) -> None:
    print("medians of each tenth of the steps")
    print("   up to step   trainer MB   descriptors   threads   processes   temporary   run's files")
    for tenth in range(TENTHS):
        if found := window(samples, steps, tenth):
            print(
                f"{steps * (tenth + 1) // TENTHS:13,} {median(found, 'memory') / 2**20:12.1f} "
                f"{median(found, 'descriptors'):13g} {median(found, 'threads'):9g} {median(found, 'processes'):11g} "
                f"{median(found, 'temporary'):11g} {median(found, 'files'):13g}"
            )


def growth(samples: list[Sample], steps: int, most: float) -> list[str]:
    """What grew from the second tenth to the last."""
    first, last = window(samples, steps, 1), window(samples, steps, TENTHS - 1)
    if not first or not last:
        return [f"there are {len(first)} and {len(last)} samples to compare; take more --steps"]
    wrong = []
    lasting = set(first[0].workers) & set(last[-1].workers)
    for what, before, after in (
        ("memory of the trainer", median(first, "memory"), median(last, "memory")),
        (f"with {len(lasting)} processes that last", with_workers(first, lasting), with_workers(last, lasting)),
    ):
        grown = after / before - 1
        print(f"{what}: {before / 2**20:.1f} MB, then {after / 2**20:.1f} MB ({grown:+.2%}; bound {most:.0%})")
        if grown >= most:
            wrong.append(f"{what}: it grew by {grown:.2%}")
    for name in ("descriptors", "threads", "processes", "temporary", "files"):
        before, after = median(first, name), median(last, name)
        print(f"{name}: {before:g}, then {after:g} (bound: no more)")
        if after > before:
            wrong.append(f"{name} grew from {before:g} to {after:g}")
    return wrong


def left_over(run: Path, temporary: Path, seen: dict[int, str], steps: int) -> list[str]:
    """What the run left and should not have."""
    deadline = time.monotonic() + 5
    while alive := [pid for pid, started in seen.items() if (f := stat(pid)) and f[19] == started and f[0] != "Z"]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    files = sorted(str(path.relative_to(temporary)) for path in temporary.rglob("*"))
    # torch makes this folder when it is imported, empty, and finds it again the next time.
    files = [file for file in files if not file.startswith("torchinductor_") or "/" in file]
    expected = {".lock", "checkpoints", "config.yaml", "curves.png", "data.json", "events", "metrics.jsonl"}
    expected |= {"samples.jsonl", "timing.jsonl", "versions.json"}
    strange = sorted({path.name for path in run.iterdir()} ^ expected)
    saved = sorted(path.name for path in (run / "checkpoints").iterdir())
    wrong = []
    print(f"afterwards: {len(alive)} of {len(seen)} child processes alive, {len(files)} temporary files")
    if alive:
        wrong.append(f"processes are left: {alive}")
    if files:
        wrong.append(f"temporary files are left: {files[:10]}")
    if strange:
        wrong.append(f"the run's folder has too much or too little: {strange}")
    if len(saved) != 2 or saved[-1] != f"step-{steps:06d}":
        wrong.append(f"checkpoints are {saved}")
    if Path("/tmp/llm-marl-left").exists():
        wrong.append("a program wrote /tmp/llm-marl-left")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

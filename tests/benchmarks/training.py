"""How fast and how large MAGRPO training is: ours, beside CoMLRL 1.4.3, beside what the machine can do.

    python tests/benchmarks/training.py                    # ours and the floors
    python tests/benchmarks/training.py --peer             # builds the peer's environment first; prints ratios
    python tests/benchmarks/training.py --growth           # how cost grows; nothing else
    python tests/benchmarks/training.py --quick            # does everything run? Its times mean nothing

Both train two agents on the same posts: SmolLM2-135M in float32, prompts of about 105 tokens, G = 4 responses of
exactly 64 tokens (the model has no end-of-text token), the reward of ``writing/tldr-v0``, AdamW. Every run is a process
of its own; ours and the peer's take turns, so that a busy machine slows both, and a ratio is taken within a round.
What each process times, and what not, is said in its file: ``training_ours.py``, ``training_peer.py``,
``training_floors.py``. docs/performance.md explains the numbers.

This process stays small (standard library only): a child's peak of memory begins with that of its parent.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import training_report as report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PEER = "training_peer.py"
SHARING = {"adapters": "isolated", "full": "full"}
#: Growth: the base case, and what is changed of it, one thing at a time.
BASE = {"agents": 2, "turns": 1, "group": 4, "prompt": 100}
GROWTH = {"agents": (1, 2, 4, 8), "turns": (1, 2, 3), "group": (2, 4, 8, 16), "prompt": (100, 300, 1000)}
QUICK_GROWTH = {"agents": (2, 1), "turns": (1, 2)}


def main() -> int:
    args = arguments()
    work = {"group": args.group, "tokens": args.tokens, "threads": args.threads}
    folder = model_folder(args)
    results: dict[str, Any] = {"settings": {name: str(value) for name, value in vars(args).items()}}
    if args.growth or args.quick:
        results["growth"] = growth(folder, work, args)
        print(report.growth(results["growth"]), flush=True)
    if not args.growth or args.quick:
        peer = build_peer(args.kept) if args.peer else None
        results["rounds"] = [one_round(folder, work, args, peer) for _ in range(args.rounds)]
        results["agents"] = third_agent(folder, work, args)
        print(report.comparison(results, str(folder)), flush=True)
    if args.quick:
        print("Everything ran and counted right. These are times of a model that is too small to time.", flush=True)
    if args.output:
        args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="store_true", help="run CoMLRL too, in .recipes/comlrl, which is built first")
    parser.add_argument("--growth", action="store_true", help="print how cost grows, in place of the comparison")
    parser.add_argument("--quick", action="store_true", help="everything once with the tiny model, in small sizes")
    parser.add_argument("--output", type=Path, help="write all that was measured to this file, as JSON")
    parser.add_argument("--kept", type=Path, default=ROOT / ".recipes", help="where models and environments are kept")
    parser.add_argument("--rounds", type=int, default=3, help="how often ours, the peer's and the floors take turns")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4], help="prompts of an update; the largest counts")
    parser.add_argument("--prompts", type=int, default=4, help="prompts that are timed in a run")
    parser.add_argument("--policies", nargs="+", default=list(SHARING), choices=list(SHARING))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--prompt-tokens", type=int, default=105, help="of a prompt, mean over both agents")
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="of every response")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", type=Path, help="a folder for tables of where our time goes, by operator")
    args = parser.parse_args()
    args.kept = args.kept.resolve()  # the processes run in another folder
    if args.quick:
        args.model, args.rounds, args.rows, args.prompts, args.tokens, args.threads = "tiny", 1, [2], 2, 4, 1
    return args


def model_folder(args: argparse.Namespace) -> Path:
    """The folder with the model and the posts that both read; written if it is not there."""
    folder = args.kept / "benchmark" / f"{Path(args.model).name}-{args.prompt_tokens}"
    if not (folder / "posts.jsonl").exists():
        call(
            sys.executable, "training_model.py", str(folder), args.model, str(args.prompt_tokens), threads=args.threads
        )
    return folder


def build_peer(kept: Path) -> Path:
    """Make the peer's environment as the recipes' are made; returns its interpreter."""
    spec = importlib.util.spec_from_file_location("recipes_run", ROOT / "docs/recipes/run.py")
    assert spec is not None and spec.loader is not None
    recipes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipes)
    kept.mkdir(exist_ok=True)
    print(f"The peer's environment: {kept / 'comlrl'} (built if it is not there) ...", flush=True)
    return recipes.build(HERE / "peer", kept / "comlrl", kept / "comlrl.log")


def one_round(folder: Path, work: dict[str, Any], args: argparse.Namespace, peer: Path | None) -> dict[str, Any]:
    """Every variant once, the peer between ours. The floors come last."""
    found: dict[str, Any] = {}
    both = {**work, "model": str(folder), "posts": str(folder / "posts.jsonl")}
    for rows in args.rows:
        size = {"rows": rows, "steps": max(1, args.prompts // rows)}
        order: list[str] = [*args.policies]
        if peer is not None:
            order.insert(1, "peer")
        for name in order:
            if name == "peer":
                run = timed(peer, PEER, {**both, **size})
            else:
                run = ours(folder, {**work, **size}, SHARING[name], args, f"{name}-{rows}")
            found[f"{name} {rows}"] = run
            print(report.line(f"{name}, {rows} a step", run), flush=True)
    found["floors"] = timed(sys.executable, "training_floors.py", {**both, "rows": max(args.rows), "repeats": 2})
    print(report.floors(found["floors"]), flush=True)
    return found


def ours(folder: Path, work: dict[str, Any], sharing: str, args: argparse.Namespace, name: str) -> dict[str, Any]:
    """A run of ours on the posts."""
    profile = ""
    if args.profile:
        args.profile.mkdir(parents=True, exist_ok=True)
        profile = str(args.profile.resolve() / name)
    env = {"env": "training_work:benchmark/posts-v0", "env_args": {"rows": str(folder / "posts.jsonl")}}
    return timed(
        sys.executable,
        "training_ours.py",
        {**work, **env, "model": str(folder), "sharing": sharing, "profile": profile},
    )


def third_agent(folder: Path, work: dict[str, Any], args: argparse.Namespace) -> dict[int, Any]:
    """Adapters: runs that differ in the number of agents only."""
    return {n: game(folder, {**work, "rows": max(args.rows)}, {**BASE, "agents": n}) for n in (2, 3)}


def growth(folder: Path, work: dict[str, Any], args: argparse.Namespace) -> list[dict[str, Any]]:
    """One run for the base case and for each change of it: adapters, one start a step, 16 tokens a response."""
    cases: list[dict[str, int]] = []
    for name, values in (QUICK_GROWTH if args.quick else GROWTH).items():
        cases += [case for value in values if (case := {**BASE, name: value}) not in cases]
    cases.sort(key=lambda case: case != BASE)
    found = []
    for case in cases:
        run = game(folder, {**work, "rows": 1, "tokens": min(16, work["tokens"]), "group": case["group"]}, case)
        found.append({**case, **run})
        print(report.line(", ".join(f"{name} {value}" for name, value in case.items()), run), flush=True)
    return found


def game(folder: Path, work: dict[str, Any], case: dict[str, int]) -> dict[str, Any]:
    """A run of ours on the game of :mod:`training_work`."""
    env_args = {"agents": case["agents"], "prompt_tokens": case["prompt"], "num_turns": case["turns"]}
    env = {"env": "training_work:benchmark/writers-v0", "env_args": env_args, "profile": ""}
    steps = {"steps": 2 if case["turns"] < 3 else 1}
    return timed(
        sys.executable, "training_ours.py", {**work, **env, **steps, "model": str(folder), "sharing": "isolated"}
    )


def timed(python: str | Path, script: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """What a process prints as its last line, with what it was asked.

    Raises:
        SystemExit: a run counted wrong: a response that is not as long as was asked, or with no text in it.
    """
    found = json.loads(call(python, script, json.dumps(wanted), threads=wanted["threads"]).splitlines()[-1])
    if "lengths" in found and (found["lengths"] != [wanted["tokens"]] or found["empty"]):
        raise SystemExit(
            f"{script}: responses of {found['lengths']} tokens, {found['empty']} of them without text, where all should "
            f"have {wanted['tokens']}. The comparison would not be of the same work."
        )
    return found | {"wanted": wanted}


def call(python: str | Path, script: str, *words: str, threads: int) -> str:
    """Run a script of this folder; returns what it printed.

    Raises:
        SystemExit: it failed; the message ends with what it printed last.
    """
    # The peer's environment has our environments installed, and must see nothing else of ours.
    path = [] if script == PEER else [str(ROOT), str(ROOT / "baselines"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"OMP_NUM_THREADS": str(threads), "WANDB_MODE": "disabled"}
    if path:
        env["PYTHONPATH"] = os.pathsep.join(path)
    done = subprocess.run([str(python), script, *words], cwd=HERE, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(words)} failed:\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

"""``make recipes``: build each recipe's own virtual environment and run it; the last line of each says what it trained.

A recipe is a folder here with ``requirements.txt`` (exact pins; ``constraints.txt`` has those of what they need in
turn), ``recipe.py`` and ``README.md``. Its environment is ``.recipes/NAME``, made anew when the pins, or our own
requirements, have changed; all that was printed is in ``.recipes/NAME.log``.
Nothing but the standard library is needed to run this file.

    python docs/recipes/run.py              # all
    python docs/recipes/run.py rllib        # those that are named
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

RECIPES = Path(__file__).resolve().parent
ROOT = RECIPES.parents[1]
SAYS = "trained "  # how the last line begins; "trained nothing: ..." where a library only plugs in
TAIL = 30  # lines of a failed command that are shown


class RecipeError(Exception):
    """A recipe could not be built, failed, or did not say what it trained."""


def names(recipes: Path = RECIPES) -> list[str]:
    """The recipes' names: folders with requirements.txt and recipe.py."""
    return sorted(f.parent.name for f in recipes.glob("*/requirements.txt") if (f.parent / "recipe.py").exists())


def clean_environment() -> dict[str, str]:
    """Variables for a recipe: without the ones by which another environment's packages would get in; with one hash
    seed, since libraries that iterate over sets of agents give other numbers with another; and a log to follow."""
    others = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    ours = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    return {k: v for k, v in os.environ.items() if k not in others} | ours


def run(command: Iterable[str | Path], log: Path, cwd: Path) -> list[str]:
    """Run a command, add what it prints to ``log``, and return that as lines.

    Raises:
        RecipeError: it failed; the message ends with what it printed last.
    """
    words = [str(word) for word in command]
    with log.open("ab") as out:
        start = out.tell()
        code = subprocess.run(
            words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd, env=clean_environment()
        ).returncode
    with log.open("rb") as printed:
        printed.seek(start)
        lines = printed.read().decode(errors="replace").splitlines()
    if code != 0:
        raise RecipeError(
            f"{' '.join(words)} ended with exit status {code}. All it printed: {log}. The last of it:\n"
            + "\n".join(lines[-TAIL:])
        )
    return lines


def build(recipe: Path, venv: Path, log: Path, ours: Path = ROOT) -> Path:
    """Make the recipe's virtual environment, if it is not there as it should be; returns its interpreter.

    Our package is installed from the checkout in the SAME command as the pins, so that pip refuses pins which our own
    requirements do not allow.

    Raises:
        RecipeError: something could not be installed.
    """
    requirements = recipe / "requirements.txt"
    files = (requirements, recipe / "constraints.txt", ours / "setup.cfg")
    made_of = b"".join(f.read_bytes() for f in files) + sys.version.encode()
    stamp, wanted = venv / ".ready", hashlib.sha256(made_of).hexdigest()
    python = venv / "bin/python"
    if not (stamp.exists() and stamp.read_text() == wanted):
        shutil.rmtree(venv, ignore_errors=True)
        run([sys.executable, "-m", "venv", venv], log, recipe)
        run([python, "-m", "pip", "install", "--quiet", "-r", requirements, "-e", ours], log, recipe)
        stamp.write_text(wanted)
    return python


def cook(name: str, out: Path, recipes: Path = RECIPES, ours: Path = ROOT) -> str:
    """Build and run one recipe; returns its last line.

    Raises:
        RecipeError: it could not be built, it failed, or its last line does not say what it trained.
    """
    out.mkdir(parents=True, exist_ok=True)
    log = out / f"{name}.log"
    log.unlink(missing_ok=True)
    python = build(recipes / name, out / name, log, ours)
    lines = [line for line in run([python, recipes / name / "recipe.py"], log, out) if line.strip()]
    last = lines[-1] if lines else ""
    if not last.startswith(SAYS):
        raise RecipeError(
            f"{recipes / name / 'recipe.py'}: its last line must begin with {SAYS!r} and say what was trained "
            f"('trained nothing: ...' where the library only plugs in). It was: {last!r}"
        )
    return last


def main(arguments: list[str] | None = None, out: Path = ROOT / ".recipes", recipes: Path = RECIPES) -> int:
    """Exit status: 0 if every recipe said what it trained, 1 if one failed, 2 if there is no such recipe."""
    parser = argparse.ArgumentParser(prog="make recipes", description="Build and run recipes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(names(recipes))}); default: all")
    wanted = parser.parse_args(arguments).names or names(recipes)
    if unknown := sorted(set(wanted) - set(names(recipes))):
        parser.error(f"no such recipe: {', '.join(unknown)}. There are: {', '.join(names(recipes))}")
    failed = 0
    for name in wanted:
        print(f"{name}: building {out / name} and running {recipes / name / 'recipe.py'} ...", flush=True)
        start = time.monotonic()
        try:
            said = cook(name, out, recipes)
        except RecipeError as error:
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
        else:
            print(f"{name}: {said} [{time.monotonic() - start:.0f} s]", flush=True)
    print(f"{len(wanted) - failed} of {len(wanted)} recipes ran.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

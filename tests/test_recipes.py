"""The recipes of docs/recipes: what each folder must hold, and `make recipes`. The libraries themselves are not run here."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "docs/recipes"
NAMES = ["agilerl", "benchmarl", "openenv", "rllib", "verifiers"]


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("recipes_run", RECIPES / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def write(tmp_path):
    """Write a recipe whose environment is there already: this interpreter's, so that nothing is installed."""

    def write(name, script, requirements="# nothing\n"):
        folder = tmp_path / "recipes" / name
        folder.mkdir(parents=True)
        (folder / "requirements.txt").write_text(requirements)
        (folder / "constraints.txt").write_text("")
        (folder / "recipe.py").write_text(script)
        return folder

    return write


@pytest.fixture
def built(runner, monkeypatch):
    monkeypatch.setattr(runner, "build", lambda *_: Path(sys.executable))


def run(runner, out, *names):
    return runner.main(list(names), out, out.parent / "recipes")


# -- what is in the folders --------------------------------------------------------------------------------------


def test_all_recipes_are_there(runner):
    assert runner.names() == NAMES


def pins(name, file):
    """project -> version; every line that is no comment must be an exact pin."""
    lines = (RECIPES / name / file).read_text().splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith(("#", "-c ")):
            pin = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([A-Za-z0-9.]+)", line)
            assert pin, f"{name}/{file}: {line}"
            project = pin[1].lower().replace("_", "-")
            assert project not in found
            found[project] = pin[2]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_requirements_are_pinned_exactly(name):
    asked, needed = pins(name, "requirements.txt"), pins(name, "constraints.txt")
    assert asked and not asked.keys() & needed.keys()
    assert "-c constraints.txt" in (RECIPES / name / "requirements.txt").read_text().splitlines()
    # Ours come from the checkout; what ours require is pinned too.
    assert not [p for p in {**asked, **needed} if p.startswith("llm-marl")]
    assert {"pettingzoo", "gymnasium", "numpy"} <= {*asked, *needed}


@pytest.mark.parametrize("name", NAMES)
def test_scripts_compile_and_are_short(name):
    for script in (RECIPES / name).glob("*.py"):
        code = script.read_text()
        compile(code, script.name, "exec")
        assert len(code.splitlines()) <= 110


@pytest.mark.parametrize("name", NAMES)
def test_pages_quote_the_pins_and_the_last_line(name):
    page = (RECIPES / name / "README.md").read_text()
    assert re.search(r"^trained .+", page, re.MULTILINE), "the page shows what the recipe printed last"
    project, version = next(iter(pins(name, "requirements.txt").items()))
    assert version in page, f"{project} {version}"
    assert f"({name}/README.md)" in (RECIPES / "README.md").read_text()


# -- the runner --------------------------------------------------------------------------------------------------


def test_the_last_line_is_printed(runner, write, built, out, capsys):
    write("good", "print('noise')\nprint('trained two tables: 0.25 -> 1.00')\nprint()\n")
    write("other", "print('trained nothing: it only plugs in')\n")
    assert run(runner, out) == 0
    printed = capsys.readouterr().out
    assert "good: trained two tables: 0.25 -> 1.00" in printed and "noise" not in printed
    assert "other: trained nothing" in printed and printed.endswith("2 of 2 recipes ran.\n")
    assert (out / "good.log").read_text().startswith("noise\n")


def test_one_recipe_by_name(runner, write, built, out, capsys):
    write("good", "print('trained x')\n")
    write("bad", "raise SystemExit(1)\n")
    assert run(runner, out, "good") == 0
    assert "bad" not in capsys.readouterr().out


def test_a_failure_is_told_and_the_others_run_all_the_same(runner, write, built, out, capsys):
    write("bad", "print('trained for nothing')\nraise SystemExit('nothing was learned: 0.25 -> 0.25')\n")
    write("good", "print('trained x')\n")
    assert run(runner, out) == 1
    printed = capsys.readouterr().out
    assert "bad: FAILED" in printed and "exit status 1" in printed and "nothing was learned: 0.25 -> 0.25" in printed
    assert "good: trained x" in printed and "1 of 2 recipes ran." in printed


@pytest.mark.parametrize("script", ["", "print('done')", "print('trained x')\nprint('bye')"])
def test_a_recipe_that_does_not_say_what_it_trained_fails(runner, write, built, out, capsys, script):
    write("silent", script)
    assert run(runner, out) == 1
    assert "must begin with 'trained '" in capsys.readouterr().out


def test_an_unknown_name(runner, write, out, capsys):
    write("good", "")
    with pytest.raises(SystemExit) as stopped:
        run(runner, out, "god")
    assert stopped.value.code == 2
    assert "no such recipe: god. There are: good" in capsys.readouterr().err


def test_other_environments_do_not_get_in(runner, write, built, out, monkeypatch):
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "elsewhere")
    write("good", "import os\nprint('trained', 'PYTHONPATH' in os.environ or 'VIRTUAL_ENV' in os.environ)\n")
    assert runner.cook("good", out, out.parent / "recipes") == "trained False"


def test_the_log_begins_anew(runner, write, built, out):
    write("good", "print('trained x')\n")
    for _ in range(2):
        runner.cook("good", out, out.parent / "recipes")
    assert (out / "good.log").read_text() == "trained x\n"


def test_an_environment_is_built_once_for_what_it_is_made_of(runner, write, out, tmp_path, monkeypatch):
    recipe = write("good", "")
    (tmp_path / "setup.cfg").write_text("[metadata]\n")
    ran = []

    def pretend(command, *_):
        ran.append([str(word) for word in command])
        if "venv" in ran[-1]:
            (out / "good").mkdir(parents=True)
        return []

    monkeypatch.setattr(runner, "run", pretend)

    def build():
        ran.clear()
        runner.build(recipe, out / "good", out / "good.log", tmp_path)
        return len(ran)

    assert build() == 2
    # The pins and our package in one command, or pip could not see that they contradict each other.
    assert ran[1][-4:] == ["-r", str(recipe / "requirements.txt"), "-e", str(tmp_path)]
    assert build() == 0
    (recipe / "requirements.txt").write_text("# changed\n")
    assert (build(), build()) == (2, 0)
    for file in (recipe / "constraints.txt", tmp_path / "setup.cfg"):
        file.write_text("# changed\n")
        assert (build(), build()) == (2, 0)
    (out / "good" / ".ready").unlink()  # as after a build that was stopped
    assert build() == 2


@pytest.mark.slow  # a real virtual environment
def test_what_cannot_be_installed_fails_and_leaves_no_stamp(runner, write, out, capsys, monkeypatch):
    write("broken", "print('trained x')\n", "./no-such-folder\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert run(runner, out) == 1
    printed = capsys.readouterr().out
    assert "broken: FAILED" in printed and "pip install" in printed and "no-such-folder" in printed
    assert (out / "broken/bin/python").exists() and not (out / "broken/.ready").exists()


def test_it_is_a_command(tmp_path):
    command = [sys.executable, RECIPES / "run.py", "nothing-of-that-name"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=dict(os.environ), check=False)
    assert done.returncode == 2
    assert f"There are: {', '.join(NAMES)}" in done.stderr

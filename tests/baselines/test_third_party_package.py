"""docs/recipes/third_party, the package of an outsider: installed, listed, checked and trained; nothing of ours is edited.

Into a virtual environment of its own goes that package alone. What it needs (ours, PyTorch and the rest) is seen there
through a .pth file, since installing it again would take minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import llm_marl_baselines
import llm_marl_envs

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "docs/recipes/third_party"
PAGES = ROOT / "docs/extending"


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A function that runs Python in that environment, in an empty folder, and returns what it printed."""
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    config = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    ours = [Path(module.__file__).parents[1] for module in (llm_marl_envs, llm_marl_baselines)]
    seen = {str(path): None for path in (*ours, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))}
    Path(sysconfig.get_path("purelib", "venv", vars=config), "what_is_needed.pth").write_text("\n".join(seen))
    shutil.copytree(PACKAGE, folder / "source")  # pip writes into the folder that it installs from
    work = folder / "work"
    work.mkdir()
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments, code=0):
        command = [str(python), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=work, env=alone, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", folder / "source"], capture_output=True, text=True, env=alone, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(folder / "venv") in run("-c", "import team_rhymes; print(team_rhymes.__file__)")
    run.work, run.source = work, folder / "source"
    return run


def test_it_is_listed_with_where_it_comes_from_and_keeps_the_contract(outside):
    (line,) = [line for line in outside("-m", "llm_marl_envs", "list").splitlines() if "rhymes" in line]
    assert line.split() == ["rhymes/couplet-v0", "team_rhymes.couplet:parallel_env", "team-rhymes", "1.0"]
    checked = ["-m", "llm_marl_envs", "check", "team_rhymes:rhymes/couplet-v0", "--arg", "num_turns=3"]
    assert outside(*checked) == "team_rhymes:rhymes/couplet-v0: passed\n"


def test_it_trains_from_the_command_line(outside):
    command = "-m llm_marl_baselines train team_rhymes.ranked:Ranked --env team_rhymes:rhymes/couplet-v0 --model tiny"
    settings = "--env_args.longest 2 --env_args.num_turns 2 --feedback team_rhymes.couplet:partners_end --steps 2"
    more = "--algorithm.scale 2 --eval-every -1 --samples-every 1 --trackers [] --output run"
    outside(*f"{command} {settings} {more}".split())
    run = outside.work / "run"
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(records) == 2 and all(r["opener/grad_norm"] > 0 and "term/rhyme" in r for r in records)
    told = [
        text
        for line in (run / "samples.jsonl").read_text().splitlines()
        for turn in json.loads(line)["turns"][1:]
        for text in turn["observations"].values()
    ]
    assert any("The other line ended in" in text for text in told)


def test_its_own_tests_pass_there(outside):
    said = outside("-m", "pytest", "-q", "-p", "no:cacheprovider", outside.source)
    assert "passed" in said and "failed" not in said


@pytest.mark.parametrize("page, file", [("task", "couplet"), ("feedback", "couplet"), ("algorithm", "ranked")])
def test_the_pages_show_the_code_of_the_package(page, file):
    """Each block of a page that comes from the package is in it word for word; the last block of a page uses it."""
    source = (PACKAGE / f"team_rhymes/{file}.py").read_text()
    blocks = [b.partition("\n```")[0] for b in (PAGES / f"{page}.md").read_text().split("```python\n")[1:]]
    assert len(blocks) > 1
    for block in blocks[:-1]:
        assert block.strip() in source, f"docs/extending/{page}.md shows what {file}.py does not hold:\n{block}"


def test_what_it_tells_its_reader():
    text = (PACKAGE / "README.md").read_text()
    lines = [len(p.read_text().splitlines()) for p in PACKAGE.rglob("*") if p.suffix in (".py", ".toml")]
    assert sum(lines) < 180 and "llm-marl train team_rhymes.ranked:Ranked" in text

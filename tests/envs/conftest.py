"""Fixtures that are dear: wheels, and virtual environments that they are installed into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNREACHABLE = ("Could not find a version", "Temporary failure", "Connection", "No matching distribution", "Max retries")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built from a copy of the tree, by the name of their package."""
    copy, out = tmp_path_factory.mktemp("source") / "tree", tmp_path_factory.mktemp("wheels")
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "runs", "tests", "shared")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    built = {}
    for name, folder in (("llm_marl_envs", copy), ("llm_marl_baselines", copy / "baselines")):
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            out,
            folder,
        ]
        subprocess.run(command, check=True, capture_output=True, text=True)
        (built[name],) = out.glob(f"{name}-*.whl")
    return built


@pytest.fixture(scope="session")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that makes a virtual environment with the given requirements, and returns its Python."""

    def build(*requirements: str | Path) -> Path:
        folder = tmp_path_factory.mktemp("venv")
        venv.create(folder, with_pip=False)  # pip of this Python installs into it, which saves seconds
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *map(str, requirements)]
        # With PYTHONPATH set, pip would find this package there and take it for installed.
        alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, env=alone, check=False)
        if done.returncode and "CI" not in os.environ and any(words in done.stderr for words in UNREACHABLE):
            pytest.skip(f"no package registry can be reached: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
        return python

    return build

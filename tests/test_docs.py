"""The documentation's links lead somewhere, and its code runs: what `make docs` checks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def check():
    spec = importlib.util.spec_from_file_location("docs_check", ROOT / "docs/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documentation_is_right():
    done = subprocess.run([sys.executable, ROOT / "docs/check.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_wrong_is_found(check, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "[here](page.md) [gone](gone.md#part) [web](https://example.org/x) [up](#top)\n"
        "```\n[not](a-link.md)\n```\n"
        "```python\nx = 1\n```\n```python no-run\nraise SystemExit\n```\n```python\nassert x == 1\n```\n"
    )
    assert check.broken_links(page) == ["gone.md"]
    assert [(line, wanted) for line, _, wanted in check.python_blocks(page)] == [(6, True), (9, False), (12, True)]
    assert check.run(page) == 2
    page.write_text("```python\n1 +\n```\n")
    with pytest.raises(SyntaxError):
        check.run(page)
    page.write_text("\n\n```python no-run\n1 +\n```\n")
    with pytest.raises(SyntaxError):
        check.run(page)

"""The documentation's links lead somewhere, its code runs, and it builds without a warning: what `make docs` checks."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import llm_marl_envs
from llm_marl_envs.registry import BUILT_IN

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def check():
    spec = importlib.util.spec_from_file_location("docs_check", ROOT / "docs/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checked(*names: str) -> None:
    command = [sys.executable, ROOT / "docs/check.py", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_lead_somewhere_and_code_runs():
    checked("links", "code")


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built once. A warning of Sphinx is an error."""
    pytest.importorskip("sphinx")
    checked("html")
    return ROOT / "docs/_build/html"


def text_of(page: Path) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")).split())


def test_every_environment_has_a_page_with_a_transcript(site):
    for env_id in BUILT_IN:
        page = text_of(site / f"reference/environments/{env_id.replace('/', '-')}.html")
        assert "Transcript" in page and "Turn 1" in page and "Reward:" in page, env_id


def test_every_algorithm_has_a_page_with_its_settings(site):
    algorithms = pytest.importorskip("llm_marl_baselines.algorithms")
    for name in algorithms.ALGORITHMS:
        page = text_of(site / f"reference/algorithms/{name}.html")
        assert "algorithm.gamma" in page and f"llm-marl train {name}" in page, name
    assert "baseline: loo" in text_of(site / "reference/algorithms/marloo.html")


def test_the_first_page_leads_to_every_other(site):
    """A page that is in no table of contents is a warning of Sphinx; this says that the sidebar has them all."""
    first = (site / "index.html").read_text(encoding="utf-8")
    for document in sorted((ROOT / "docs").rglob("*.md")):
        name = document.relative_to(ROOT / "docs").with_suffix("").as_posix()
        if not name.startswith(("_build", ".")) and name != "README":
            assert f'href="{name}.html"' in first, name


def test_links_out_of_docs_lead_to_pages_of_the_site(site):
    """To the page that a file has become, else to its source; and every link inside the site leads to a file."""
    page = (site / "README.html").read_text(encoding="utf-8")
    assert 'href="reference/environments/writing-tldr-v0.html"' in page
    assert 'href="source/llm_marl_envs/coding/rewards.py.html"' in page
    for html in sorted(site.rglob("*.html")):
        for target in set(re.findall(r'href="([^"#:?]+)[^":]*"', html.read_text(encoding="utf-8"))):
            assert (html.parent / target).exists(), f"{html}: {target}"


def test_the_public_names_are_described(site):
    page = (site / "reference/api/README.html").read_text(encoding="utf-8")
    for name in llm_marl_envs.__all__:
        assert re.search(rf'href="[^"]+#llm_marl_envs\.[\w.]*{name}"', page), name


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

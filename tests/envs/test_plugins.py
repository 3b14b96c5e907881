"""Environments of other packages, found by their entry points."""

from __future__ import annotations

import sys
import textwrap

import pytest

from llm_marl_envs import make, registered
from llm_marl_envs.__main__ import main
from llm_marl_envs.errors import UnknownNameError
from llm_marl_envs.plugins import everything
from llm_marl_envs.registry import ENVIRONMENTS

GOOD = """
import llm_marl_envs, toys
llm_marl_envs.register("garden/letters-v0", "toys:toy")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that puts a module and the metadata of its distribution where Python finds them."""
    monkeypatch.setattr(ENVIRONMENTS, "_entries", dict(ENVIRONMENTS._entries))
    monkeypatch.setattr("llm_marl_envs.registry._pettingzoo_register", None)
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def install(module, code, namespace):
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
        metadata = tmp_path / f"{module}_dist-2.5.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}-dist\nVersion: 2.5\n")
        (metadata / "entry_points.txt").write_text(f"[llm_marl_envs]\n{namespace} = {module}\n")
        modules.append(module)

    yield install
    for module in modules:
        sys.modules.pop(module, None)


def test_an_id_of_an_installed_package_needs_no_module(install):
    install("garden_of_toys", GOOD, "garden")
    assert "garden_of_toys" not in sys.modules
    assert make("garden/letters-v0", num_turns=2).num_turns == 2
    with pytest.raises(UnknownNameError, match="Did you mean 'garden/letters-v0'"):
        make("garden/leters-v0")


def test_only_the_namespace_that_is_asked_for_is_imported(install):
    install("garden_of_toys", GOOD, "garden")
    install("never_asked_for", "raise SystemExit('imported')", "never")
    make("garden/letters-v0")
    make("probe/own-word-v0")
    assert "never_asked_for" not in sys.modules


def test_the_list_says_where_each_comes_from(install, capsys):
    install("garden_of_toys", GOOD, "garden")
    listed, broken = everything()
    assert broken == [] and [one.env_id for one in listed] == registered()
    sources = {one.env_id: one.source for one in listed}
    assert sources.pop("garden/letters-v0") == ""  # what builds it is the tests' own module: no plugin names it
    assert len(set(sources.values())) == 1 and next(iter(sources.values())).startswith("llm-marl-envs ")
    assert main(["list"]) == 0
    assert "garden/letters-v0" in capsys.readouterr().out


def test_a_package_that_cannot_be_imported_is_named_and_keeps_nobody_from_the_rest(install, capsys):
    install("garden_of_toys", GOOD, "garden")
    install("broken_package", "x = 1\nx / 0\n", "broken")
    install("taken_by_others", GOOD.replace("garden/letters", "writing/tldr"), "taken")
    assert main(["list"]) == 0
    out, err = capsys.readouterr()
    assert "garden/letters-v0" in out and "writing/tldr-v0" in out
    assert "broken_package-dist 2.5: its module broken_package cannot be imported: ZeroDivisionError" in err
    assert "broken_package.py, line 2" in err
    assert "taken_by_others-dist 2.5" in err and "'writing/tldr-v0' is registered already" in err
    with pytest.raises(ZeroDivisionError):  # nothing is hidden from who asks for it
        make("broken/anything-v0")

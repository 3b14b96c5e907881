"""Names to objects, in one way."""

from __future__ import annotations

import sys

import pytest

from llm_marl_envs.errors import ConfigError, MissingDependencyError, UnknownNameError
from llm_marl_envs.tables import Table, did_you_mean, import_module, load_object


def test_did_you_mean():
    assert did_you_mean("cub", ["cube", "ball"]) == " Did you mean 'cube'?"
    assert did_you_mean("xyz", ["cube", "ball"]) == did_you_mean("x", []) == ""


def test_objects_are_loaded_by_reference():
    from collections import OrderedDict

    assert load_object("collections:OrderedDict") is OrderedDict
    assert load_object("collections:OrderedDict.fromkeys") == OrderedDict.fromkeys


@pytest.mark.parametrize("reference", ["", "collections", ":OrderedDict", "collections:"])
def test_a_reference_has_two_parts(reference):
    with pytest.raises(ConfigError, match="package.module:attribute"):
        load_object(reference)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import not_there_at_all\n")
    (tmp_path / "is_broken.py").write_text("raise ValueError('inside')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        UnknownNameError, match="Module 'collections' has no attribute 'OrderdDict'.*Did you mean 'OrderedDict'"
    ):
        load_object("collections:OrderdDict")
    with pytest.raises(UnknownNameError, match=r"no module 'not_there' \(asked for by 'not_there.sub'\)"):
        import_module("not_there.sub")
    with pytest.raises(UnknownNameError, match="no module 'collections.none'"):
        import_module("collections.none")
    with pytest.raises(
        MissingDependencyError, match="'needs_more' needs the module 'not_there_at_all'.*pip install not_there"
    ):
        import_module("needs_more")
    with pytest.raises(MissingDependencyError, match="'not_there'.*pip install thing"):
        import_module("not_there", install="pip install thing")
    with pytest.raises(ValueError, match="inside"):
        import_module("is_broken")
    assert issubclass(MissingDependencyError, ImportError)


def test_a_table_imports_an_entry_when_it_is_resolved():
    sys.modules.pop("colorsys", None)
    table = Table("thing", {"rgb": "colorsys:rgb_to_hsv", "own": len})
    assert list(table) == ["rgb", "own"] and len(table) == 2 and "rgb" in table and "x" not in table
    assert table["rgb"] == "colorsys:rgb_to_hsv" and "colorsys" not in sys.modules
    assert table.resolve("rgb")(0, 0, 0) == (0.0, 0.0, 0)
    assert table.resolve("own") is len and table.resolve(max) is max
    assert table.resolve("collections:OrderedDict").__name__ == "OrderedDict"


def test_an_unknown_name_is_helped_on():
    table = Table("thing", {"rgb": "colorsys:rgb_to_hsv"})
    for call in (table.resolve, table.__getitem__):
        with pytest.raises(
            UnknownNameError, match="Unknown thing 'rbg'. Did you mean 'rgb'. Known: rgb. .*module:attribute"
        ):
            call("rbg")


def test_two_entries_under_one_name_are_refused():
    table = Table("thing", {"a": "m:a"})
    table.add("a", "m:a")
    table.add("b", "m:b")
    with pytest.raises(ConfigError, match="thing 'a' is registered already, as 'm:a'"):
        table.add("a", "m:other")
    assert table["a"] == "m:a" and table["b"] == "m:b"

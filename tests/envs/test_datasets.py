"""Rows from every source; splits, slices, fields; errors that name file, row and field."""

from __future__ import annotations

import csv
import json
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_marl_envs import load_rows
from llm_marl_envs.datasets import packaged, parse_split
from llm_marl_envs.errors import DataError, MissingDependencyError

POSTS = [
    {"id": "a", "split": "train", "prompt": 'one, "quoted"\nand a line'},
    {"id": "b", "split": "train", "prompt": "two\u2028with a line separator\x85"},
    {"id": "c", "split": "eval", "prompt": "drei: naïve 日本語 🙂"},
]


def save(folder, suffix, rows):
    path = folder / f"posts{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n", encoding="utf-8")
    elif suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
@pytest.mark.parametrize("as_text", [True, False])
def test_local_files(tmp_path, suffix, as_text):
    path = save(tmp_path, suffix, POSTS)
    source = str(path) if as_text else path
    assert list(load_rows(source, required=("prompt",))) == POSTS[:2]
    assert list(load_rows(source, split="eval")) == POSTS[2:]
    assert list(load_rows(source, split="train[1:]")) == POSTS[1:2]
    assert load_rows(source).source == str(path)


def test_rows_given_as_mappings():
    assert list(load_rows(POSTS)) == POSTS[:2]
    assert list(load_rows(iter(POSTS), split="eval[-1:]")) == POSTS[2:]
    given_rows = [{"prompt": "x"}]
    rows = load_rows(given_rows)
    assert list(rows) == [{"prompt": "x", "id": "0"}] and given_rows == [{"prompt": "x"}]


@pytest.mark.parametrize("name", packaged())
def test_packaged_rows(name):
    train, held_out = load_rows(f"package:{name}"), load_rows(f"package:{name}", split="eval")
    assert len(train) and len(held_out)
    assert not {row["id"] for row in train} & {row["id"] for row in held_out}
    texts = [row.get("prompt") or row.get("abstract_text") for row in [*train, *held_out]]
    assert all(texts) and len(set(texts)) == len(texts)


def test_a_local_folder_is_read_through_datasets(tmp_path, tmp_path_factory, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    for name, rows in (("train", POSTS[:2]), ("test", POSTS[2:])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert list(load_rows(tmp_path, split="train[:1]", required=("prompt",))) == POSTS[:1]
    assert list(load_rows(str(tmp_path), split="test")) == POSTS[2:]
    with pytest.raises(DataError, match="'train', row 1|row 1: field 'missing'"):
        load_rows(tmp_path, split="train[1:]", required=("missing",))
    with pytest.raises(DataError, match="split"):
        load_rows(tmp_path, split="nothing")


class FakeHub(types.ModuleType):
    """Stands for `datasets`; counts the rows that are read."""

    class exceptions:
        class DatasetsError(Exception):
            pass

    class Rows(list):
        read = 0

        def __getitem__(self, index):
            type(self).read += 1
            return super().__getitem__(index)

    def load_dataset(self, name, *config, split):
        if name == "no/such":
            raise ConnectionError("no network")
        name = " ".join((name, *config))
        return self.Rows({"prompt": f"{name} {split} {i}", "completion": "c"} for i in range(10_000))


def test_a_hub_set_reads_no_more_than_the_slice(monkeypatch):
    hub = FakeHub("datasets")
    monkeypatch.setitem(sys.modules, "datasets", hub)
    rows = load_rows("trl-lib/tldr", split="test[-3:]", required=("prompt",))
    assert [row["id"] for row in rows] == ["9997", "9998", "9999"] and rows[0]["prompt"] == "trl-lib/tldr test 9997"
    assert hub.Rows.read == 3
    with pytest.raises(DataError, match="trl-lib/tldr, row 7: field 'body' is missing"):
        load_rows("trl-lib/tldr", split="train[7:9]", required=("body",))
    with pytest.raises(DataError, match=r"'no/such' could not be loaded \(ConnectionError: no network\).*package:tldr"):
        load_rows("no/such")


def test_a_configuration_of_a_hub_set_stands_behind_a_colon(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasets", FakeHub("datasets"))
    (row,) = load_rows("google-research-datasets/mbpp:sanitized", split="validation[5:6]")
    assert row["prompt"] == "google-research-datasets/mbpp sanitized validation 5"
    with pytest.raises(DataError, match="'no/such:part' could not be loaded"):
        load_rows("no/such:part")
    (folder := tmp_path / "a:b").mkdir()  # a folder of that name is taken as it is
    assert load_rows(folder, split="[:1]")[0]["prompt"] == f"{folder} train 0"


def test_a_configuration_of_a_local_folder(tmp_path, tmp_path_factory, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": name}), encoding="utf-8")
    configs = "".join(f"- config_name: {n}\n  data_files: {n}.jsonl\n" for n in ("one", "two"))
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{configs}---\n", encoding="utf-8")
    assert [row["prompt"] for row in load_rows(f"{tmp_path}:two")] == ["two"]


def test_without_datasets_the_error_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises((MissingDependencyError, LookupError), match="datasets") as error:
        load_rows("trl-lib/tldr")
    assert isinstance(error.value, MissingDependencyError) and "llm-marl-envs[hub]" in str(error.value)


def test_without_pyarrow_the_error_gives_the_command(monkeypatch, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingDependencyError, match=r"llm-marl-envs\[hub\]"):
        load_rows(tmp_path / "x.parquet")


# -- splits and slices ------------------------------------------------------------------------------------------------

bound = st.none() | st.integers(-30, 30)


@given(size=st.integers(1, 20), start=bound, stop=bound)
def test_slices_are_pythons(size, start, stop):
    rows = [{"prompt": str(i)} for i in range(size)]
    split = f"train[{'' if start is None else start}:{'' if stop is None else stop}]"
    assert parse_split(split) == ("train", start, stop)
    expected = rows[start:stop]
    if expected:
        assert [row["prompt"] for row in load_rows(rows, split=split)] == [row["prompt"] for row in expected]
    else:
        with pytest.raises(DataError, match="leaves none"):
            load_rows(rows, split=split)


def test_the_name_of_a_split_is_optional():
    assert parse_split("[-8:]") == ("train", -8, None)
    assert parse_split("validation.v2") == ("validation.v2", None, None)


@pytest.mark.parametrize("split", ["train[", "train[1]", "train[a:b]", "train[::2]", "a b", "train[:3]x", None, 3])
def test_a_bad_split_is_refused(split):
    with pytest.raises(DataError, match="not of the form"):
        load_rows(POSTS, split=split)


@pytest.mark.parametrize("source", ["rows", "file"])
def test_an_unknown_split_names_those_that_are_there(tmp_path, source):
    where = POSTS if source == "rows" else save(tmp_path, ".jsonl", POSTS)
    with pytest.raises(DataError, match="has no split 'test'; it has: eval, train"):
        load_rows(where, split="test")


def test_a_row_without_a_split_is_a_training_row():
    rows = [{"prompt": "no split"}, {"prompt": "held out", "split": "eval"}]
    assert [row["prompt"] for row in load_rows(rows)] == ["no split"]
    assert [row["prompt"] for row in load_rows(rows, split="eval")] == ["held out"]


def test_an_empty_source_is_an_error(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    for source in ([], tmp_path / "empty.jsonl"):
        with pytest.raises(DataError, match="has no rows"):
            load_rows(source)


# -- fields and ids ---------------------------------------------------------------------------------------------------


def test_fields_are_renamed():
    rows = load_rows([{"body": "text", "n": 3}], fields={"prompt": "body"}, required=("prompt",))
    assert rows[0] == {"body": "text", "n": 3, "prompt": "text", "id": "0"}


def test_ids_come_from_id_then_task_id_then_the_position():
    rows = [{"id": 7, "task_id": "t"}, {"task_id": "HumanEval/0"}, {"id": None}, {"id": ""}]
    assert [row["id"] for row in load_rows(rows)] == ["7", "HumanEval/0", "2", "3"]
    assert load_rows(rows).index_of(7) == 0 and load_rows(rows).index_of("HumanEval/0") == 1


def test_an_id_that_stands_twice_is_an_error(tmp_path):
    path = save(
        tmp_path, ".jsonl", [{"id": "a", "prompt": "1"}, {"id": "b", "prompt": "2"}, {"id": "a", "prompt": "3"}]
    )
    with pytest.raises(DataError, match=r"posts.jsonl, row 2: field 'id': 'a' stands in row 0 too"):
        load_rows(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_a_bad_field_names_file_row_and_field(tmp_path, suffix):
    path = save(tmp_path, suffix, [{"prompt": "fine", "n": "1"}, {"prompt": "  ", "n": "2"}])
    with pytest.raises(DataError, match=rf"posts\{suffix}, row 1: field 'prompt' must be non-empty text, not '  '"):
        load_rows(path, required=("prompt",))
    with pytest.raises(DataError, match=rf"posts\{suffix}, row 0: field 'abstract' is missing.*prompt, n.*fields="):
        load_rows(path, required=("abstract",))
    with pytest.raises(
        DataError, match=rf"posts\{suffix}, row 0: no column 'promt' for field 'x'. Did you mean 'prompt'"
    ):
        load_rows(path, fields={"x": "promt"})


@pytest.mark.parametrize("value", [None, 3, 1.5, ["x"], {"a": 1}, ""])
def test_a_field_must_be_text(value):
    with pytest.raises(DataError, match="the rows given, row 0: field 'prompt' must be non-empty text"):
        load_rows([{"prompt": value}], required=("prompt",))


def test_only_the_rows_of_the_slice_are_checked():
    rows = [{"prompt": "fine"}, {"prompt": ""}]
    assert len(load_rows(rows, split="train[:1]", required=("prompt",))) == 1


# -- files that cannot be read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("x.jsonl", b'{"prompt": "a"}\n{"prompt": \n', r"x.jsonl, line 2 \(row 1\): not JSON"),
        ("x.jsonl", b'{"prompt": "a"}\n["list"]\n', "x.jsonl, row 1: a row must be an object"),
        ("x.json", b'[{"prompt":\n "a"},\n oops]', "x.json, line 3: not JSON"),
        ("x.json", b'{"prompt": "a"}', "must hold a list of rows, not dict"),
        ("x.json", b"[1]", "x.json, row 0: a row must be an object with named fields, not int"),
        ("x.csv", b"prompt,n\na,1\nb,2,3,4\n", "x.csv, row 1: 2 more values than columns.*prompt, n"),
        ("x.csv", b"prompt\n" + b"a" * 140_000, "x.csv, line 2: not CSV.*jsonl"),
        ("x.csv", b"prompt\n\xff\xfe", "x.csv: not UTF-8"),
        ("x.jsonl", b'{"prompt": "\xe9"}', "x.jsonl: not UTF-8"),
        ("x.txt", b"hello", r"x.txt: a data file must end in .jsonl, .json, .csv, .parquet"),
    ],
)
def test_a_broken_file_names_the_place(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        load_rows(tmp_path / name)


def test_a_csv_row_that_is_too_short_lacks_its_last_fields(tmp_path):
    (tmp_path / "x.csv").write_text("n,prompt\n1,a\n2\n")
    with pytest.raises(DataError, match="x.csv, row 1: field 'prompt' must be non-empty text, not None"):
        load_rows(tmp_path / "x.csv", required=("prompt",))


def test_a_broken_parquet_file_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match="x.parquet: not a .parquet file"):
        load_rows(tmp_path / "x.parquet")


def test_missing_files_are_named():
    with pytest.raises(DataError, match="nowhere.csv: no such file"):
        load_rows("nowhere.csv")
    with pytest.raises(DataError, match="package:tdlr: this package ships no such file; it has: .*tldr"):
        load_rows("package:tdlr")


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), min_size=1))
def test_jsonl_and_csv_give_back_any_text(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("rows")
    rows = [{"prompt": text} for text in texts]
    assert [row["prompt"] for row in load_rows(save(folder, ".jsonl", rows))] == texts
    # CSV as Python writes it turns a lone \r into a quoted one; a NUL is no CSV before Python 3.11.4.
    if not any("\x00" in text for text in texts):
        assert [row["prompt"] for row in load_rows(save(folder, ".csv", rows))] == texts

"""Rows for a task, from a packaged file, a local file, or the Hugging Face hub.

``load_rows("package:tldr", split="train[:16]")``   a file that ships with this package
``load_rows("posts.csv", fields={"prompt": "body"})``   a local .jsonl, .json, .csv or .parquet file
``load_rows("trl-lib/tldr", split="train[:1000]")``   a hub id or a local folder, through ``datasets`` (extra ``hub``)
``load_rows("google-research-datasets/mbpp:sanitized")``   the same, with one of its configurations

A split is a name with an optional slice in Python's notation: ``train``, ``train[:1000]``, ``test[16:]``,
``[-8:]`` (of the split ``train``). Rows of a local file, or given as mappings, may have a field ``split``; a row
without one is ``train``.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from .errors import DataError
from .tables import did_you_mean, import_module

PACKAGED = "package:"
_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
_SPLIT = re.compile(r"(?P<name>[\w.\-]*)(?:\[(?P<start>-?\d+)?:(?P<stop>-?\d+)?\])?")
_CONFIGURED = re.compile(r"(?P<name>.+):(?P<config>[\w.\-]+)")
Place = tuple[str, Any]  # where a row stands, for messages; and the row
_INSTALL_HUB = "pip install 'llm-marl-envs[hub]'"


class Rows(Sequence[Mapping[str, Any]]):
    """Checked rows in order, each with a text ``id`` that no other row has. Immutable, shared by clones."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], source: str):
        self.source = source
        self._rows = tuple(rows)
        self._index = {row["id"]: i for i, row in enumerate(self._rows)}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def index_of(self, row_id: str) -> int:
        """Position of the row with this id.

        Raises:
            DataError: there is none; the message offers the nearest.
        """
        row_id = str(row_id)
        if row_id not in self._index:
            hint = did_you_mean(row_id, self._index)
            raise DataError(f"{self.source} has no row with id {row_id!r}.{hint} It has {len(self)} rows.")
        return self._index[row_id]


def load_rows(
    source: str | Path | Iterable[Mapping[str, Any]],
    *,
    split: str = "train",
    fields: Mapping[str, str] | None = None,
    required: Sequence[str] = (),
) -> Rows:
    """Load and check the rows of one split.

    Args:
        source: see the module's docstring; or the rows themselves, as mappings.
        split: a name with an optional slice.
        fields: renames columns: the task's name for a field -> the name in the source.
        required: fields that every row must have as non-empty text.

    Raises:
        DataError: nothing to read, a bad split, or a bad row (the message names file, row and field).
        MissingDependencyError: a hub id or a .parquet file without the extra ``hub``.
    """
    name, start, stop = parse_split(split)
    where = str(source) if isinstance(source, (str, Path)) else "the rows given"
    raw = _read(where, name) if isinstance(source, (str, Path)) else _of_split(where, _numbered(source), name)
    if not raw:
        raise DataError(f"{where}: split {name!r} has no rows.")
    chosen = raw[start:stop]
    if not chosen:
        raise DataError(f"{where}: the slice of split {split!r} leaves none of its {len(raw)} rows.")
    return Rows(_checked(chosen, where, fields or {}, required), where)


def parse_split(split: str) -> tuple[str, int | None, int | None]:
    """``"train[:100]"`` -> ``("train", None, 100)``."""
    found = _SPLIT.fullmatch(split) if isinstance(split, str) else None
    if found is None:
        raise DataError(f"Split {split!r} is not of the form 'name', 'name[start:stop]' or '[start:stop]'.")
    start, stop = (None if v is None else int(v) for v in (found["start"], found["stop"]))
    return found["name"] or "train", start, stop


def _checked(
    raw: Iterable[tuple[str, Any]], where: str, fields: Mapping[str, str], required: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    seen: dict[str, str] = {}
    for place, row in raw:
        if not isinstance(row, Mapping):
            raise DataError(f"{where}, {place}: a row must be an object with named fields, not {type(row).__name__}.")
        row = dict(row)
        if None in row:  # what csv.DictReader calls the values beyond the last column
            raise DataError(f"{where}, {place}: {len(row[None])} more values than columns. It has: {_names(row)}.")
        for field, column in fields.items():
            if column not in row:
                hint = did_you_mean(column, map(str, row))
                raise DataError(
                    f"{where}, {place}: no column {column!r} for field {field!r}.{hint} It has: {_names(row)}."
                )
            row[field] = row[column]
        for field in required:
            if field not in row:
                raise DataError(
                    f"{where}, {place}: field {field!r} is missing. The row has: {_names(row)}. "
                    f"If the field has another name there, pass fields={{{field!r}: <its name>}}."
                )
            if not isinstance(row[field], str) or not row[field].strip():
                raise DataError(f"{where}, {place}: field {field!r} must be non-empty text, not {row[field]!r}.")
        names = (row.get("id"), row.get("task_id"), place.removeprefix("row "))
        row["id"] = next(str(name) for name in names if name is not None and name != "")
        if row["id"] in seen:
            raise DataError(f"{where}, {place}: field 'id': {row['id']!r} stands in {seen[row['id']]} too.")
        seen[row["id"]] = place
        yield row


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(str(name) for name in row if name is not None) or "nothing"


def _numbered(rows: Iterable[Any]) -> list[Place]:
    return [(f"row {i}", row) for i, row in enumerate(rows)]


class _HubRows(Sequence[Place]):
    """A data set of ``datasets``, of which only the rows of a slice are read."""

    def __init__(self, rows: Any):
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return f"row {index}", self._rows[index]


def _read(where: str, split: str) -> Sequence[Place]:
    """(place, row) of one split; ``place`` is for messages."""
    if where.startswith(PACKAGED):
        path = resources.files(__package__) / "data" / f"{where.removeprefix(PACKAGED)}.jsonl"
        if not path.is_file():
            raise DataError(f"{where}: this package ships no such file; it has: {', '.join(packaged())}.")
        rows = _read_jsonl(where, path.read_text(encoding="utf-8"))
    elif (path := Path(where)).suffix.lower() in _SUFFIXES:
        if not path.is_file():
            raise DataError(f"{where}: no such file (current folder: {Path.cwd()}).")
        rows = _read_file(where, path)
    elif path.is_file():
        raise DataError(f"{where}: a data file must end in {', '.join(_SUFFIXES)}.")
    else:
        return _read_hub(where, split)
    return _of_split(where, rows, split)


def _of_split(where: str, rows: Sequence[Place], split: str) -> list[Place]:
    # A row that is no object is in every split, so that it is found and named.
    of = [str(row.get("split", "train")) if isinstance(row, Mapping) else split for _, row in rows]
    if rows and split not in of:
        raise DataError(
            f"{where} has no split {split!r}; it has: {', '.join(sorted(set(of)))}. "
            "Name one of them, with a slice where part of it is wanted ('train[48:]')."
        )
    return [row for row, name in zip(rows, of, strict=True) if name == split]


def packaged() -> list[str]:
    """Names of the files that ship with this package, for ``"package:NAME"``."""
    folder = resources.files(__package__) / "data"
    return sorted(p.name.removesuffix(".jsonl") for p in folder.iterdir() if p.name.endswith(".jsonl"))


def _read_file(where: str, path: Path) -> list[Place]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        # pyarrow comes with `datasets`, and with it the extra that .parquet needs.
        parquet = import_module("pyarrow.parquet", install=_INSTALL_HUB)
        try:
            return _numbered(parquet.read_table(path).to_pylist())
        except (OSError, ValueError) as error:
            raise DataError(f"{where}: not a .parquet file that can be read ({error}).") from error
    try:
        text = path.read_bytes().decode("utf-8-sig")  # bytes, since read_text() would turn \r into \n
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 text ({error}). Save the file as UTF-8.") from error
    if suffix == ".csv":
        # Not splitlines(), which would also cut at U+2028 and the like inside a field.
        reader = csv.DictReader(io.StringIO(text, newline=""))
        try:
            return _numbered(reader)
        except csv.Error as error:
            raise DataError(
                f"{where}, line {reader.reader.line_num}: not CSV ({error}). A .jsonl file has no such limits."
            ) from error
    if suffix == ".jsonl":
        return _read_jsonl(where, text)
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}, line {error.lineno}: not JSON ({error.msg}).") from error
    if not isinstance(rows, list):
        raise DataError(f"{where}: a .json file must hold a list of rows, not {type(rows).__name__}.")
    return _numbered(rows)


def _read_jsonl(where: str, text: str) -> list[Place]:
    rows: list[Place] = []
    # Only \n ends a line: splitlines() would also cut at U+2028 and the like inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append((f"row {len(rows)}", json.loads(line)))
            except json.JSONDecodeError as error:
                raise DataError(f"{where}, line {number} (row {len(rows)}): not JSON ({error.msg}).") from error
    return rows


def _read_hub(where: str, split: str) -> Sequence[Place]:
    datasets = import_module("datasets", install=_INSTALL_HUB)
    named = None if Path(where).exists() else _CONFIGURED.fullmatch(where)
    names = (named["name"], named["config"]) if named else (where,)
    try:
        rows = datasets.load_dataset(*names, split=split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"{where!r} could not be loaded ({type(error).__name__}: {error}). It is neither a packaged file "
            f"({', '.join(PACKAGED + n for n in packaged())}) nor a local {'/'.join(_SUFFIXES)} file or folder, so it "
            "was taken for a data set of the Hugging Face hub: check its name and split, and the network."
        ) from error
    return _HubRows(rows)

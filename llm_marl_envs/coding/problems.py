"""Data sets of programming problems, brought into one shape.

HumanEval's fields are ``task_id``, ``prompt`` (imports, helper functions, the entry point's signature and docstring),
``entry_point``, ``test`` (defines ``check(candidate)``) and ``canonical_solution`` (the entry point's body);
CoopHumanEval has the same without a solution. MBPP's are ``task_id``, ``prompt`` (a sentence), ``code`` (a solution),
``test_list`` (asserts) and ``test_imports``. Out of each, a :class:`Problem` is made as the rows are loaded.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ..datasets import Rows, load_rows, parse_split
from ..errors import DataError

HELPER = "aux"
_RESERVED = re.compile(rf"{HELPER}(_\d+)?")
_LINE_END = re.compile(r"\r\n|\r|\n")
Row = Mapping[str, Any]


class Problem(TypedDict):
    """A row of a coding task.

    Attributes:
        id: the row's id; ``task_id`` of the data set where it has one.
        text: what the agents are told of the problem.
        entry_point: the name of the function to be written.
        preamble: public code that every program may use: the imports, constants and helper functions that the prompt
            shows beside the entry point.
        tests: hidden. Defines ``check(candidate)``, or holds asserts that call the entry point.
        reference: hidden. Code whose names the tests may use, with the solution where there is one.
        solution: hidden. A whole program that solves the problem, as a response could hold it; empty if there is none.
    """

    id: str
    text: str
    entry_point: str
    preamble: str
    tests: str
    reference: str
    solution: str


@dataclass(frozen=True)
class Source:
    """Where the problems of one environment come from unless the user names other data.

    Attributes:
        data: the default of the argument ``data``.
        train: the split that stands for ``split=None`` with that data.
        held_out: the split that ``split="eval"`` stands for with that data; disjoint from ``train``.
        fields: columns that a row must have as text.
        convert: a row of the data set -> a problem. It raises ``BadProblemError``.
        read: gives the rows of the default data; None where ``load_rows`` knows its name.
    """

    data: str
    train: str
    held_out: str
    fields: tuple[str, ...]
    convert: Callable[[Row], Problem]
    read: Callable[[], Iterable[Row]] | None = None


class BadProblemError(ValueError):
    """What is wrong with a row; ``load_problems`` adds where it stands."""


def load_problems(
    source: Source,
    data: str | Path | Iterable[Row],
    split: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Rows:
    """Load the problems of one split.

    Args:
        source: of the environment.
        data: the name of its default data, a file, a hub id, or rows of the data set's own shape.
        split: a name with an optional slice. With the default data None and ``"eval"`` stand for disjoint parts of it;
            with other data None is ``"train"``.
        fields: renames columns.

    Raises:
        DataError: nothing to read, or a bad row; the message names the row and the field.
        MissingDependencyError: the package of the default data is not installed.
    """
    is_default = isinstance(data, str) and data == source.data
    split = (source.train if is_default else "train") if split is None else split
    name, start, stop = parse_split(split)
    rest = slice(None)
    if is_default and name == "eval":
        split, rest = source.held_out, slice(start, stop)
    read = source.read() if is_default and source.read is not None else data
    rows = load_rows(read, split=split, fields=fields, required=source.fields)
    where = source.data if is_default else rows.source
    if not (chosen := rows[rest]):
        raise DataError(f"{where}: the slice of split 'eval' leaves none of its {len(rows)} rows ({split}).")
    problems = []
    for row in chosen:
        try:
            problems.append(source.convert(row))
        except BadProblemError as error:
            raise DataError(f"{where}, row {row['id']!r}: {error}") from error
    return Rows(problems, where)


def from_humaneval(row: Row) -> Problem:
    """A row of HumanEval or of CoopHumanEval."""
    prompt, entry_point = row["prompt"], row["entry_point"]
    solution = row.get("canonical_solution") or ""
    if not isinstance(solution, str):
        raise BadProblemError(f"field 'canonical_solution' must be text, not {solution!r}.")
    tree = _parsed("prompt", prompt)
    whole = _joined(prompt, solution) if solution.strip() else ""
    if whole:
        _parsed("canonical_solution", whole)
    if "check" not in _functions(_parsed("test", row["test"])):
        raise BadProblemError("field 'test' must define check(candidate).")
    return Problem(
        id=row["id"],
        text=f"```python\n{prompt.strip()}\n```",
        entry_point=_checked_name(entry_point, "entry_point"),
        preamble=_without(prompt, tree, entry_point),
        tests=_with_asserts("test", row["test"]),
        reference=whole or prompt,
        solution=whole,
    )


def from_mbpp(row: Row) -> Problem:
    """A row of MBPP. The function that the tests call gives the entry point's name and signature."""
    code = row["code"].replace("\r\n", "\n")
    asserts = _texts(row, "test_list")
    if not asserts:
        raise BadProblemError("field 'test_list' has no tests.")
    imports = "\n".join(_texts(row, "test_imports"))
    _parsed("test_imports", imports)
    functions = _functions(_parsed("code", code))
    tests = _with_asserts("test_list", "\n".join(asserts))
    called = _called(_parsed("test_list", tests))
    # Later definitions come first: a solution's own helper functions stand before what uses them.
    entry_point = next((name for name in reversed(functions) if name in called), None)
    if entry_point is None:
        raise BadProblemError(
            f"field 'test_list' calls no function that field 'code' defines ({', '.join(functions) or 'none'})."
        )
    return Problem(
        id=row["id"],
        text=f"{row['prompt'].strip()}\n\n```python\n{_signature(functions[entry_point])}\n```",
        entry_point=_checked_name(entry_point, "code"),
        preamble="",
        tests=tests,
        reference=f"{imports}\n{code}" if imports else code,
        solution=code,
    )


# -- parts ------------------------------------------------------------------------------------------------------------


def _parsed(field: str, code: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings of a data set, which are not the user's to mend
            return ast.parse(code)
    except (SyntaxError, ValueError) as error:  # ValueError: a NUL, before Python 3.12
        raise BadProblemError(f"field {field!r} is no Python ({error}).") from error


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _checked_name(entry_point: str, field: str) -> str:
    if _RESERVED.fullmatch(entry_point):
        raise BadProblemError(f"field {field!r}: the entry point may not be called {entry_point!r}, as helpers are.")
    return entry_point


def _joined(prompt: str, body: str) -> str:
    return prompt + ("" if prompt.endswith("\n") else "\n") + body


def _without(prompt: str, tree: ast.Module, entry_point: str) -> str:
    """The prompt's code less the entry point, by lines, so that comments stay."""
    functions = _functions(tree)
    if entry_point not in functions:
        raise BadProblemError(
            f"field 'prompt' defines no function {entry_point!r}; it defines: {', '.join(functions) or 'none'}."
        )
    lines = _LINE_END.split(prompt)  # not splitlines(), which cuts where Python's parser counts no line
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name == entry_point:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            del lines[first - 1 : node.end_lineno]
    rest = "\n".join(lines).strip()
    return f"{rest}\n" if _parsed("prompt", rest).body else ""


def _texts(row: Row, field: str) -> Sequence[str]:
    value = row.get(field)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise BadProblemError(f"field {field!r} must be a list of texts, not {value!r}.")
    return value


def _with_asserts(field: str, tests: str) -> str:
    """``tests``, if there is an assert in them that a program could fail; the sandbox counts no other."""
    asserts = [node for node in ast.walk(_parsed(field, tests)) if isinstance(node, ast.Assert)]
    if not any(isinstance(node, (ast.Name, ast.Call)) for found in asserts for node in ast.walk(found.test)):
        raise BadProblemError(f"field {field!r} has no assert that depends on the program.")
    return tests


def _called(tree: ast.Module) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _signature(function: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"def {function.name}({ast.unparse(function.args)}){returns}:"

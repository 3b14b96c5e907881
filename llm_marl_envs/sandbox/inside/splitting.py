"""A data set's tests, taken apart: which asserts there are, and code that tries each of them.

Each top-level statement of ``check`` (or of the test text itself, where it defines no ``check``) is a unit:

- an assert counts as one test. In a loop or a branch it counts once, and passes if it was executed and held every time;
- an exception in a statement fails all asserts in its unit; in a unit without asserts (``result = candidate(3)``) it
  fails all asserts that come later, since what they stand on was not made;
- a unit with ``try`` or ``with`` in it runs as written. If it holds an assert, or calls the entry point, it counts as
  one test, which passes if the unit ends without an exception;
- an assert without a name or a call in it (``assert True``) holds whatever the program does: it is not counted.

An assert in a function that ``check`` defines counts as one in a loop does.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

TRACKER = "__tracker__"
CAUGHT = "__caught__"  # exceptions that fail a test, as a tuple
ERROR = "__error__"
CHECK = "check"


@dataclass
class Split:
    """Tests taken apart.

    Attributes:
        code: executes the set-up and then, at module level or in ``check``, every unit, reporting to the tracker.
        calls_check: whether ``check`` is to be called after the code was executed.
        sources: of the counted tests, in order.
        units: the counted tests of each unit.
        constant: sources of asserts that are not counted.
        calls: arguments, ``(args, kwargs)``, of all calls of the entry point, in order, where these can be told without
            executing anything; else None.
    """

    code: CodeType
    calls_check: bool
    sources: list[str] = field(default_factory=list)
    units: list[list[int]] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    calls: list[tuple[list[Any], dict[str, Any]]] | None = None


def split(tests: str, entry_point: str) -> Split:
    """Take tests apart.

    Args:
        tests: trusted code.
        entry_point: the function under test; the tests may call it ``candidate`` too.

    Raises:
        SyntaxError: the tests are no Python.
    """
    tree = ast.parse(tests)
    check = next((s for s in reversed(tree.body) if isinstance(s, ast.FunctionDef) and s.name == CHECK), None)
    work = _Splitter({entry_point, "candidate"})
    if check is not None and check.args.args:
        work.subjects.add(check.args.args[0].arg)
    calls = _foreseen(tree if check is None else check, tree, work.subjects)
    if check is None:
        tree.body = work.units_of(tree.body)
    else:
        check.body = work.units_of(check.body)
        # What else stands beside it is set-up, but for a call of check itself, which is ours to make.
        tree.body = [s for s in tree.body if not (isinstance(s, ast.Expr) and _calls(s, {CHECK}))]
    ast.fix_missing_locations(tree)
    code = compile(tree, "<tests>", "exec", dont_inherit=True)
    return Split(code, check is not None, work.sources, work.units, work.constant, calls)


class _Splitter:
    def __init__(self, subjects: set[str]):
        self.subjects = subjects  # names of the function under test
        self.sources: list[str] = []
        self.units: list[list[int]] = []
        self.constant: list[str] = []
        self._as_written: set[str] = set()  # functions of the tests that hold asserts which were left alone

    def units_of(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
                result.append(statement)
            else:
                result.append(self._unit(statement))
        return result

    def _unit(self, statement: ast.stmt) -> ast.stmt:
        """``if tracker.enter(unit): try: <the statement> except caught as error: tracker.broke(unit, error)``"""
        number = len(self.units)
        self.units.append([])
        body = [statement]
        if _holds(statement, (ast.Try, ast.TryStar, ast.With)):
            is_function = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
            if is_function and _holds(statement, (ast.Assert,)):
                self._as_written.add(statement.name)  # type: ignore[attr-defined]
            if not is_function and (_holds(statement, (ast.Assert,)) or _calls(statement, self.subjects)):
                test = self._count(statement)
                body = [_report("begin", test), statement, _report("note", test, ast.Constant(True))]
        elif _calls(statement, self._as_written) and not isinstance(statement, (ast.FunctionDef, ast.Assert)):
            test = self._count(statement)
            body = [_report("begin", test), statement, _report("note", test, ast.Constant(True))]
        else:
            body = _Asserts(self).visit_all(body)
        handler = ast.ExceptHandler(
            type=ast.Name(CAUGHT, ast.Load()),
            name=ERROR,
            body=[_report("broke", number, ast.Name(ERROR, ast.Load()))],
        )
        guarded = ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[])
        return ast.If(test=_report("enter", number).value, body=[guarded], orelse=[])

    def _count(self, statement: ast.stmt) -> int:
        """A new counted test of the current unit."""
        self.sources.append(ast.unparse(statement))
        self.units[-1].append(len(self.sources) - 1)
        return len(self.sources) - 1

    def asserted(self, statement: ast.Assert) -> list[ast.stmt]:
        """``tracker.begin(test); try: tracker.note(test, <condition>) except caught as error: tracker.error(...)``"""
        if not any(isinstance(node, (ast.Name, ast.Call)) for node in ast.walk(statement.test)):
            self.constant.append(ast.unparse(statement))
            return [ast.Pass()]
        test = self._count(statement)
        handler = ast.ExceptHandler(
            type=ast.Name(CAUGHT, ast.Load()),
            name=ERROR,
            body=[_report("error", test, ast.Name(ERROR, ast.Load()))],
        )
        noted = ast.Try(body=[_report("note", test, statement.test)], handlers=[handler], orelse=[], finalbody=[])
        return [_report("begin", test), noted]


class _Asserts(ast.NodeTransformer):
    """Replaces the asserts in a statement."""

    def __init__(self, work: _Splitter):
        self._work = work

    def visit_all(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            new: Any = self.visit(statement)
            result += new if isinstance(new, list) else [new]
        return result

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        return self._work.asserted(node)


def _report(method: str, number: int, *values: ast.expr) -> ast.Expr:
    tracker = ast.Attribute(ast.Name(TRACKER, ast.Load()), method, ast.Load())
    return ast.Expr(ast.Call(tracker, [ast.Constant(number), *values], []))


def _holds(statement: ast.stmt, kinds: tuple[type, ...]) -> bool:
    return any(isinstance(node, kinds) for node in ast.walk(statement))


def _calls(statement: ast.stmt, names: set[str]) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
        for node in ast.walk(statement)
    )


def _foreseen(
    holder: ast.Module | ast.FunctionDef, tree: ast.Module, subjects: set[str]
) -> list[tuple[list[Any], dict[str, Any]]] | None:
    """The calls of tests that are nothing but asserts which each make one call with literal arguments."""
    calls: list[tuple[list[Any], dict[str, Any]]] = []
    for statement in holder.body:
        if not any(isinstance(node, ast.Name) and node.id in subjects for node in ast.walk(statement)):
            continue
        if not isinstance(statement, ast.Assert):
            return None
        found = [node for node in ast.walk(statement.test) if isinstance(node, ast.Name) and node.id in subjects]
        call = _only_call(statement.test, subjects)
        if call is None or len(found) != 1 or (statement.msg is not None and _holds_name(statement.msg, subjects)):
            return None
        try:
            args = [ast.literal_eval(argument) for argument in call.args]
            kwargs = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return None
        if len(kwargs) < len(call.keywords):
            return None
        calls.append((args, kwargs))
    elsewhere = [s for s in tree.body if s is not holder and holder is not tree]
    return None if any(_holds_name(s, subjects) and not _calls(s, {CHECK}) for s in elsewhere) else calls


def _only_call(test: ast.expr, subjects: set[str]) -> ast.Call | None:
    """The call of a subject in an expression that makes it exactly once, whatever else is evaluated."""
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in subjects:
        return test
    if isinstance(test, ast.Compare) and len(test.comparators) > 1:
        return None  # 1 < f(2) < f(3) may stop halfway
    if not isinstance(test, (ast.Compare, ast.Call, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List)):
        return None
    parts = [part for part in ast.iter_child_nodes(test) if isinstance(part, ast.expr)]
    found = [call for part in parts if (call := _only_call(part, subjects)) is not None]
    return found[0] if len(found) == 1 else None


def _holds_name(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))

"""Which statements of a syntax tree can run at all.

Dead is what stands after ``return``, ``raise``, ``break`` or ``continue`` in the same block, what a constant condition
excludes (``if False``, ``while 0``, ``if 1 == 2``), a loop over nothing, a handler of a body that only passes::

    def solve(x):
        return x
        aux(x)  # dead

What depends on values that are computed is taken to run.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any


class _Unknown(Exception):
    pass


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def truth(node: ast.expr) -> bool | None:
    """Whether an expression is always true, always false, or None where that is not known.

    Known are constants, displays of constants (``[]``), ``not``, ``and``, ``or``, comparisons (``1 == 2``) and small
    sums of them, ``range(0)``, and ``__name__ == "__main__"``, which is false: programs are imported here.
    """
    try:
        return bool(_constant(node))
    except (_Unknown, TypeError, ValueError, OverflowError, RecursionError):
        return None


def _constant(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return [_constant(item) for item in items]
        case ast.Dict(keys=[]):
            return {}
        case ast.Lambda():
            return True
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _constant(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_constant(operand)
        case ast.NamedExpr(value=value):
            return _constant(value)
        case ast.BoolOp(op=op, values=values):
            # One constant operand may decide, whatever the others are.
            known = [truth(value) for value in values]
            decisive = isinstance(op, ast.Or)
            if decisive in known:
                return decisive
            if None in known:
                raise _Unknown
            return not decisive
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return False
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_constant(left), *map(_constant, comparators)]
            return all(_COMPARISONS[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            numbers = _constant(left), _constant(right)
            if all(isinstance(n, int | float) and abs(n) < 1e9 for n in numbers):
                return _ARITHMETIC[type(op)](*numbers)
            raise _Unknown
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if args:
            return range(*map(_constant, args))
    raise _Unknown


def live(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block that can run: up to the first after which none does."""
    for index, statement in enumerate(body):
        if ends(statement):
            return body[: index + 1]
    return body


def ends(statement: ast.stmt) -> bool:
    """Whether control never goes on to the statement after this one."""
    # Kept on the node: long chains of elif would be walked again and again.
    if (known := getattr(statement, "_ends", None)) is None:
        try:
            known = _ends(statement)
        except RecursionError:
            known = False
        statement._ends = known  # type: ignore[attr-defined]
    return bool(known)


def _ends(statement: ast.stmt) -> bool:
    match statement:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.Assert(test=test):
            return truth(test) is False
        case ast.If(test=test, body=body, orelse=orelse):
            constant = truth(test)
            return (constant is False or _block_ends(body)) and (constant is True or _block_ends(orelse))
        case ast.While(test=test):
            return truth(test) is True and not breaks(statement)
        case ast.Try() | ast.TryStar():
            if _block_ends(statement.finalbody):
                return True
            main = _block_ends(statement.body) or _block_ends(statement.orelse)
            return main and all(_block_ends(handler.body) for handler in statement.handlers)
    # ``with`` may swallow an exception, and ``match`` may match nothing: what follows may run.
    return False


def _block_ends(body: list[ast.stmt]) -> bool:
    return any(map(ends, body))


def breaks(loop: ast.stmt) -> bool:
    """Whether a loop can be left by a ``break`` of its own."""
    todo = blocks(loop)[:1]
    while todo:
        for statement in live(todo.pop()):
            if isinstance(statement, ast.Break):
                return True
            # The else of an inner loop belongs to this one.
            inner = blocks(statement)
            todo += inner[1:] if isinstance(statement, ast.For | ast.AsyncFor | ast.While) else inner
    return False


def blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks within a statement that can run, in order; those of functions and classes are not among them.

    For a loop the body comes first, empty if it never runs.
    """
    match statement:
        case ast.If(test=test, body=body, orelse=orelse):
            constant = truth(test)
            return [block for block, dead in ((body, False), (orelse, True)) if constant is not dead]
        case ast.While(test=test, body=body, orelse=orelse):
            constant = truth(test)
            return [[] if constant is False else body, [] if constant is True else orelse]
        case ast.For(iter=items, body=body, orelse=orelse) | ast.AsyncFor(iter=items, body=body, orelse=orelse):
            return [[] if truth(items) is False else body, orelse]
        case ast.Try() | ast.TryStar():
            # Nothing in it can raise, so nothing is handled.
            idle = all(map(is_idle, statement.body))
            handlers = [] if idle else [handler.body for handler in statement.handlers]
            orelse = [] if _block_ends(statement.body) else statement.orelse
            return [statement.body, *handlers, orelse, statement.finalbody]
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return [body]
        case ast.Match(cases=cases):
            return [case.body for case in cases if case.guard is None or truth(case.guard) is not False]
    return []


def is_idle(statement: ast.stmt) -> bool:
    """``pass``, a docstring or another constant on its own."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a scope that can run, in the order of the source, without those of inner scopes."""
    todo = [iter(live(body))]
    while todo:
        if (statement := next(todo[-1], None)) is None:
            todo.pop()
        else:
            yield statement
            todo += [iter(live(block)) for block in reversed(blocks(statement))]

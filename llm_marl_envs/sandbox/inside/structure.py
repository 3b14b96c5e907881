"""What the syntax trees say of a program, before any of it is executed.

Standard library only. Nothing is executed or imported, and no text makes it raise.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .running import statements
from .scopes import Function, module_names, own_nodes
from .trees import Problem, compiles, good_start, parse
from .usage import Use, uses
from .wrapping import is_thin

_MAX_STEPS = 20  # from name to name, in search of the function that an assignment amounts to


def inspect(main: tuple[str, str], helpers: Sequence[tuple[str, str]], compiled: Sequence[str] = ()) -> dict[str, Any]:
    """The facts of ``Structure``, ``PartFacts`` and ``UseFacts`` (``sandbox/programs.py``) as JSON-able data.

    Args:
        main: the wanted name and the source (from ``extract``) of the part with the entry point.
        helpers: the same of the other parts.
        compiled: sources that are known to compile.

    Returns:
        ``main`` and ``helpers``: one dict a part (``name``, ``source``, ``defined``, ``returns``, ``error``).
        ``together``: whether every part is Python. ``uses``: helper's name -> ``called``, ``thin``, ``ignored``,
        ``redefined``.

    **error** is None or the first syntax error: ``type``, ``line`` and ``column`` (from 1; None where Python names no
    place), ``message``. What Python finds after parsing counts, too (``return`` outside a function). Of a part with an
    error the complete top-level statements before it are looked at, so that a good function is ``defined``
    although garbage follows.

    **defined**: the name is bound to a function at top level, also within ``if`` or ``try``; the last binding counts::

        def aux(x): ...                 aux = lambda x: x
        aux = other_function            aux = functools.cache(other_function)

    No definition: an import, a class, a method, a constant, ``del``, dead code (see ``running``), or a call of a
    function of the part that returns no function.

    **returns**: the function has a ``return`` with a value that can be reached, not counting ``return None`` and the
    functions within it; or a ``yield``. A lambda returns, unless ``None``. So does a function from elsewhere (``aux =
    math.gcd``), since it cannot be seen.

    **called**, **ignored**, **redefined**: see ``usage``. **thin**: see ``wrapping``. All are False where the code is
    nested too deeply to be followed (some 200 levels).
    """
    facts, trees = [], []
    for name, source in (main, *helpers):
        fact, tree = _part(name, source, source in compiled)
        facts.append(fact)
        trees.append(tree)
    return {
        "main": facts[0],
        "helpers": facts[1:],
        "together": all(fact["error"] is None for fact in facts),
        "uses": _uses(trees[0], main[0], [name for name, _ in helpers]),
    }


def _part(name: str, source: str, is_compiled: bool) -> tuple[dict[str, Any], ast.Module]:
    tree = parse(source)
    error = tree if isinstance(tree, Problem) else None if is_compiled else compiles(tree, source)
    if isinstance(tree, Problem):
        tree = good_start(source, tree)[1]
    elif error is not None:
        line = error.line or 0
        tree = ast.Module([s for s in tree.body if (s.end_lineno or 0) < line], type_ignores=[])
    function = definition(tree, name)
    fact = {
        "name": name,
        "source": source,
        "defined": function is not None,
        "returns": function is not None and _returns(function),
        "error": error and error._asdict(),
    }
    return fact, tree


def _uses(tree: ast.Module, entry: str, helpers: list[str]) -> dict[str, dict[str, bool]]:
    if not helpers:
        return {}
    try:
        found = uses(tree, entry, helpers)
        thin = {name: found[name].called and is_thin(tree, entry, name) for name in helpers}
    except (RecursionError, MemoryError):
        found, thin = {name: Use() for name in helpers}, {}
    return {
        name: {
            "called": found[name].called,
            "thin": thin.get(name, False),
            "ignored": found[name].called and not found[name].used,
            "redefined": found[name].redefined,
        }
        for name in helpers
    }


# -- definitions --------------------------------------------------------------------------------------------------


def defines(tree: ast.Module, name: str) -> bool:
    """Whether a function of that name is defined at top level; see :func:`inspect`."""
    return definition(tree, name) is not None


def definition(tree: ast.Module, name: str) -> ast.AST | None:
    """The function that ``name`` is bound to at top level: its node, an expression if it comes from elsewhere, or None
    if it is not bound, or not to a function."""
    bound = module_names(tree)
    if isinstance(bound.get(name), ast.alias):
        return None  # of an example ("from solution import aux"): nothing was written here
    return _function(bound.get(name), bound, [])


def _function(value: ast.AST | None, bound: dict[str, ast.AST | None], seen: list[ast.AST]) -> ast.AST | None:
    if value is None or value in seen or len(seen) > _MAX_STEPS:
        return None
    seen.append(value)
    match value:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.Attribute() | ast.alias():
            return value
        case ast.Name(id=name):
            return _function(bound[name], bound, seen) if name in bound else value
        case ast.Call(func=ast.Name(id=name)) if isinstance(made := bound.get(name), ast.ClassDef):
            methods = {s.name: s for s in made.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)}
            return methods.get("__call__")
        case ast.Call(func=func, args=args, keywords=keywords):
            callee = _function(func, bound, seen)
            if isinstance(callee, ast.FunctionDef) and (made := _returned_function(callee)):
                return made
            for argument in [*args, *(keyword.value for keyword in keywords)]:
                if isinstance(found := _function(argument, bound, seen), Function):
                    return found
            return None if callee is None or isinstance(callee, Function) else value
    return None


def _returned_function(function: ast.FunctionDef) -> ast.AST | None:
    own = {s.name: s for s in statements(function.body) if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)}
    for statement in statements(function.body):
        match statement:
            case ast.Return(value=ast.Lambda() as made):
                return made
            case ast.Return(value=ast.Name(id=name)) if name in own:
                return own[name]
    return None


def _returns(function: ast.AST) -> bool:
    if isinstance(function, ast.Lambda):
        return not _is_none(function.body)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return True
    found = (s.value for s in statements(function.body) if isinstance(s, ast.Return) and s.value is not None)
    return not all(map(_is_none, found)) or any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(function)
    )


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None

"""Which names a piece of code binds, and to what; and where a name that it reads is bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from .running import statements

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
# All others are dismissed at once: most nodes are names and constants.
_BINDING = (ast.stmt, ast.NamedExpr, ast.withitem, ast.ExceptHandler, ast.pattern)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """As ``ast.iter_child_nodes``, in half the time."""
    for value in vars(node).values():
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield item


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, without the bodies of the functions and classes within; these nodes themselves come.

    Of inner functions the defaults and decorators belong to this scope, annotations to none.
    """
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        if current is node and isinstance(current, SCOPES):
            todo += current.body if isinstance(current.body, list) else [current.body]
        elif isinstance(current, ast.ClassDef):
            todo += [*current.decorator_list, *current.bases]
        elif isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += [*getattr(current, "decorator_list", ()), *defaults(current)]
        else:
            todo += children(current)


def defaults(function: ast.AST) -> list[ast.expr]:
    """The default values of a function's parameters; none for a class."""
    if not isinstance(function, Function):
        return []
    return [*function.args.defaults, *(value for value in function.args.kw_defaults if value is not None)]


def parameters(function: Function) -> list[ast.arg]:
    """All parameters of a function, ``*args`` and ``**kwargs`` last."""
    args = function.args
    rest = [argument for argument in (args.vararg, args.kwarg) if argument is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest]


def positional(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """The parameters that are taken by position, each with its default value."""
    named = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(named) - len(arguments.defaults))
    return list(zip(named, [*missing, *arguments.defaults], strict=True))


def header(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement and what it holds besides the statements within it."""
    todo: list[ast.AST] = [statement]
    while todo:
        current = todo.pop()
        yield current
        if current is statement or not isinstance(current, SCOPES):
            todo += (child for child in children(current) if not isinstance(child, ast.stmt))


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """The names that one node binds by itself, each with what it is bound to; None where that is not plain to see."""
    if not isinstance(node, _BINDING):
        return
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, node
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from target_names(target, value)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield from target_names(target, value)
        case ast.NamedExpr(target=target, value=value):
            yield from target_names(target, value)
        case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
            yield from target_names(target, None)
        case ast.withitem(optional_vars=target) if target is not None:
            yield from target_names(target, None)
        case ast.Delete(targets=targets):
            for target in targets:
                yield from target_names(target, None)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield alias.asname or alias.name.split(".")[0], alias
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, None
        case ast.MatchMapping(rest=str(name)):
            yield name, None


def target_names(target: ast.expr, value: ast.AST | None) -> Iterator[tuple[str, ast.AST | None]]:
    """The names in the target of an assignment of ``value``, as in :func:`bindings`."""
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Starred(value=inner):
            yield from target_names(inner, None)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            values: list[ast.expr] | list[None] = [None] * len(items)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(items):
                values = value.elts
            for item, one in zip(items, values, strict=True):
                yield from target_names(item, one)


@dataclass(eq=False)
class Scope:
    """A module, function, class, lambda or comprehension.

    Attributes:
        node: its code.
        parent: the scope around it.
        names: what each name that is bound here may be bound to; None where that is not plain to see.
        globals: names that belong to the module; ``stored`` are those that are bound here nevertheless.
        read: names that are read here or in a scope within.
    """

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[ast.AST | None]] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    inner: list[Scope] = field(default_factory=list)

    def find(self, name: str) -> Scope | None:
        """The scope in which a name that is read here is bound."""
        scope: Scope | None = self
        while scope is not None:
            # The names of a class are not seen by the functions in it.
            if name in scope.names and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope
            if name in scope.globals:
                while scope.parent is not None:
                    scope = scope.parent
                return scope if name in scope.names else None
            scope = scope.parent
        return None


def scopes(tree: ast.Module) -> dict[ast.AST, Scope]:
    """The scope of each function, lambda and class, and of the module.

    A lambda within a comprehension is taken to stand in the function around it.
    """
    module = Scope(tree, None)
    found: list[Scope] = [module]
    for scope in found:  # grows on the way
        bound, outer = _own_names(scope)
        if scope is module:
            scope.names = {name: [value] for name, value in module_names(tree).items()}  # the last one counts
        else:
            scope.names = {name: values for name, values in bound.items() if name not in scope.globals | outer}
            scope.stored = scope.globals & bound.keys()
        found += scope.inner
    for scope in reversed(found):
        for name in scope.stored:
            module.names.setdefault(name, []).append(None)
        if scope.parent is not None:
            scope.parent.read |= scope.read - scope.names.keys()
    return {scope.node: scope for scope in found}


def _own_names(scope: Scope) -> tuple[dict[str, list[ast.AST | None]], set[str]]:
    """What is bound in a scope, and the names that it says are of another one."""
    bound: dict[str, list[ast.AST | None]] = {}
    outer: set[str] = set()
    if isinstance(scope.node, Function):
        args = scope.node.args
        bound.update((argument.arg, [None]) for argument in parameters(scope.node))
        for argument, default in [*positional(args), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]:
            bound[argument.arg].append(default)  # what it stands for unless a caller says otherwise
    for node in own_nodes(scope.node):
        if isinstance(node, ast.Name):
            scope.read.add(node.id)
        if node is scope.node:
            continue
        if isinstance(node, SCOPES):
            scope.inner.append(Scope(node, scope))
        elif isinstance(node, ast.Global):
            scope.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound.setdefault(node.target.id, [])  # local even without a value
        for name, value in bindings(node):
            bound.setdefault(name, []).append(value)
    return bound, outer


def module_names(tree: ast.Module) -> dict[str, ast.AST | None]:
    """What each name of a module is bound to last, by statements that can run."""
    if (names := getattr(tree, "_names", None)) is None:  # kept on the tree: several ask
        names = {}
        for statement in statements(tree.body):
            for node in header(statement):
                names.update(bindings(node))
        tree._names = names  # type: ignore[attr-defined]
    return cast(dict[str, ast.AST | None], names)

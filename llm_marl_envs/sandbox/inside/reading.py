"""Which names an expression reads, and which functions and helpers it uses: see ``usage``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .running import truth
from .scopes import SCOPES, Scope, children, defaults, scopes, target_names

# Builtins that only compute: what they are given is used if their value is.
_PURE = frozenset(
    "abs all any ascii bin bool bytes callable chr complex dict divmod enumerate filter float format frozenset getattr "
    "hasattr hash hex id int isinstance issubclass iter len list map max min object oct ord pow print range repr "
    "reversed round set slice sorted str sum tuple type zip".split()
)
# Those that do not call a function that they are given.
_NAMING = frozenset("bool callable getattr hasattr hash id isinstance print repr str type".split())


@dataclass
class Use:
    """See ``usage``."""

    called: bool = False
    used: bool = False
    redefined: bool = False


class Expressions:
    """Reads the expressions of a program; a subclass reads the statements around them."""

    def __init__(self, tree: ast.Module, helpers: list[str]):
        self.found = {name: Use() for name in helpers}
        self.scopes = scopes(tree)
        self.module = self.scopes[tree]
        # Functions to look at and whether their results are used; and those looked at.
        self.todo: list[tuple[ast.AST, bool]] = []
        self.seen: dict[ast.AST, bool] = {}
        self.targets: dict[tuple[Scope, str], list[ast.AST | str]] = {}  # of names that were looked up
        self.reached: list[Scope] = []
        self._enter(self.module, needed=False)

    def _enter(self, scope: Scope, needed: bool) -> None:
        self.scope = self.function = scope
        self.needed = needed  # whether what the function returns is used
        self.loading = scope is self.module  # the code runs when the program is loaded
        self.loops: list[tuple[set[str], set[str]]] = []  # names read after a break, after a continue
        self.caught: set[str] = set()  # names read if the statement raises
        self.pinned: set[str] = set()  # names that inner functions read
        if not self.loading:
            self.pinned.update(*(inner.read - inner.names.keys() for inner in scope.inner))

    def _reach(self, node: ast.AST, needed: bool) -> None:
        self.todo.append((node, needed))

    def _wants(self, target: ast.expr, after: set[str]) -> bool:
        """Whether what is assigned here is read."""
        match target:
            case ast.Name(id=name):
                # A name of another scope, or of a class, may be read anywhere.
                local = name in self.function.names and not isinstance(self.function.node, ast.ClassDef)
                return not local or name in after or name in self.pinned
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return any(self._wants(item, after) for item in items)
            case ast.Starred(value=inner):
                return self._wants(inner, after)
        return True

    # Expressions: each adds the names that it reads, latest first.

    def _expression(self, node: ast.AST | None, needed: bool, after: set[str], naming: bool = False) -> None:
        """``needed``: whether the value is used. ``naming``: a helper's name alone is no use of the helper."""
        match node:
            case None | ast.Constant():
                return
            case ast.Name():
                self._name(node, needed, after, naming)
            case ast.Call():
                self._call(node, needed, after)
            case ast.Lambda():
                self._reach(node, True)
                for default in defaults(node):
                    self._expression(default, needed, after, naming=True)
            case ast.NamedExpr(target=target, value=value):
                needed = needed or self._wants(target, after)
                self._expression(value, needed, after)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                constant = truth(test)
                self._expression(orelse if constant is not True else None, needed, after)
                self._expression(body if constant is not False else None, needed, after)
                self._expression(test, needed, after, naming=True)
            case ast.BoolOp(op=op, values=values):
                decided = [truth(value) is isinstance(op, ast.Or) for value in values]
                for value in reversed(values[: decided.index(True) + 1] if any(decided) else values):
                    self._expression(value, needed, after)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, needed, after)
            case ast.Compare() | ast.Attribute() | ast.UnaryOp():
                self._children(node, needed, after, naming=True)
            case ast.Yield() | ast.YieldFrom():
                self._children(node, True, after)
            case _:
                self._children(node, needed, after)

    def _children(self, node: ast.AST, needed: bool, after: set[str], naming: bool = False) -> None:
        for child in reversed(list(children(node))):
            self._expression(child, needed, after, naming)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, needed: bool, after: set[str]
    ) -> None:
        inner: set[str] = set()
        outer = self.scope
        targets = [name for part in node.generators for name, _ in target_names(part.target, None)]
        self.scope = Scope(node, outer, {name: [None] for name in targets})
        parts = node.generators
        idle = [truth(part.iter) is False or any(truth(test) is False for test in part.ifs) for part in parts]
        if not any(idle):
            for result in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                self._expression(result, needed, inner)
        for part in reversed(parts[: idle.index(True) + 1] if any(idle) else parts):
            for test in reversed(part.ifs if truth(part.iter) is not False else []):
                self._expression(test, needed, inner, naming=True)
            self._expression(part.iter, needed, inner)
        self.scope = outer
        after |= inner - set(targets)

    def _call(self, node: ast.Call, needed: bool, after: set[str]) -> None:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "__call__":
            func = func.value
        builtin = func.id if isinstance(func, ast.Name) and not self._bound(func.id) else ""
        for argument in reversed([*node.args, *(keyword.value for keyword in node.keywords)]):
            self._expression(argument, needed or builtin not in _PURE, after, naming=builtin in _NAMING)
        if isinstance(func, ast.Name):
            after.add(func.id)
            for target in self._targets(func.id):
                if not isinstance(target, str):
                    self._reach(target, needed)
                elif not self.loading:
                    self._record(target, needed)
        elif isinstance(func, ast.Lambda):
            self._reach(func, needed)
        else:
            self._expression(func, True, after)

    def _name(self, node: ast.Name, needed: bool, after: set[str], naming: bool = False) -> None:
        if needed:
            after.add(node.id)
        for target in self._targets(node.id):
            if not isinstance(target, str):
                self._reach(target, True)
            elif not naming:
                self._record(target, needed)

    def _record(self, helper: str, used: bool) -> None:
        self.found[helper].called = True
        self.found[helper].used |= used

    def _bound(self, name: str) -> bool:
        return name in self.found or self.scope.find(name) is not None

    def _targets(self, name: str) -> list[ast.AST | str]:
        """What a name stands for: functions, classes and values of the main part, and helpers (as their names)."""
        if (known := self.targets.get((self.scope, name))) is not None:
            return known
        self.targets[self.scope, name] = targets = list[ast.AST | str]()
        todo, seen = [(name, self.scope)], set()
        while todo:
            name, scope = todo.pop()
            found = scope.find(name)
            if (name, id(found)) in seen:
                continue
            seen.add((name, id(found)))
            if found is None:
                targets += [name] if name in self.found else []
                continue
            for value in found.names[name]:
                if isinstance(value, ast.Name):
                    todo.append((value.id, found))
                elif isinstance(value, SCOPES) or (isinstance(value, ast.expr) and found is self.module):
                    targets.append(value)
        return targets

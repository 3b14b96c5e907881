"""How the entry point uses the helpers, decided on the main part's syntax tree.

**called**: code that the entry point reaches calls the helper. Reached are its body and the functions, lambdas and
classes of the main part that reached code names; dead code (see ``running``) is not::

    def solve(x):                def solve(xs):                   def solve(x):
        return aux(x) + 1            return sum(map(aux, xs))         f = aux
                                                                      return f(x) + 1

All three call it: handing the helper on as a value counts, since somebody else calls it then. These do not::

    def solve(x):
        def never_used(): return aux(x)   # not reached
        if False: aux(x)                  # dead
        aux; aux is None; callable(aux)   # only named
        eval("aux(x)")                    # a string
        return x

A default value or a decorator of the entry point runs when the program is loaded, and so do assignments at top level: a
call there is none of the entry point's, though a function made there (``main = partial(aux, 1)``) is followed.

**redefined**: the main part binds the helper's name at top level, in a function that says ``global``, or in the
entry point (a parameter, too); or some other reached function binds it and the helper is never called. What follows
Python's scopes: where the name is bound otherwise, a call is no call of the helper.

**used** (its opposite is ``ignored``): the result of some call goes somewhere: into a ``return`` whose value is used
in turn, a condition, an argument, an attribute, an element, a ``yield``. This is liveness of names, backwards over the
statements, in reached code. A result is not used where it is an expression on its own, where it is assigned to a name
that is not read before it is bound again, where it only goes into such an expression (``y = aux(x) + 1``, ``print(aux
(x))``, ``if aux(x): pass``), or where it is returned by a function whose own result is not used::

    def solve(x):
        y = aux(x)
        y = x + 1      # ignored: the first y is never read
        return y

Approximations, all in the program's favour: a result that is stored in an element or an attribute or is an argument
counts as used, whatever becomes of it (but not an argument of builtins without effect, such as ``len`` or ``print``); a
name that an inner function, a handler, or a loop around it reads is live throughout.
"""

from __future__ import annotations

import ast

from .reading import Expressions, Use
from .running import blocks, is_idle, live, truth
from .scopes import SCOPES, defaults


def uses(tree: ast.Module, entry: str, helpers: list[str]) -> dict[str, Use]:
    """What the entry point does with each helper. Raises RecursionError for code that is nested too deeply."""
    analysis = _Analysis(tree, helpers)
    analysis.run(entry)
    return analysis.found


class _Analysis(Expressions):
    def run(self, entry: str) -> None:
        if entry in self.module.names:
            self._name(ast.Name(entry, ast.Load()), True, set())
        entries = {node for node, _ in self.todo}
        while self.todo:
            node, needed = self.todo.pop()
            if node not in self.seen or needed > self.seen[node]:
                self.seen[node] = needed
                self._look_at(node, needed)
        for name, use in self.found.items():
            shadows = [s for s in self.reached if name in s.names and not isinstance(s.node, ast.ClassDef)]
            own = any(scope.node in entries for scope in shadows)
            use.redefined = name in self.module.names or own or bool(shadows and not use.called)

    def _look_at(self, node: ast.AST, needed: bool) -> None:
        if not isinstance(node, SCOPES):  # what a name of the module is bound to
            self._enter(self.module, needed)
            self._expression(node, needed, set())
            return
        scope = self.scopes[node]
        if scope.parent is self.module:
            self._enter(self.module, needed)
            for decorator in getattr(node, "decorator_list", ()):
                self._expression(decorator, True, set(), naming=True)
        self._enter(scope, needed)
        if isinstance(node, ast.Lambda):
            self._expression(node.body, needed, set())
        else:
            self._block(node.body, set())
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                self._expression(base, True, set())
            for statement in node.body:
                if isinstance(statement, SCOPES):
                    self._reach(statement, True)
        self.reached.append(scope)

    # Statements: each takes the names that are read after it and returns those that are read from it on.

    def _block(self, body: list[ast.stmt], after: set[str]) -> set[str]:
        for statement in reversed(live(body)):
            after = self._statement(statement, after | self.caught if self.caught else after)
        return after

    def _statement(self, statement: ast.stmt, after: set[str]) -> set[str]:
        inner = blocks(statement)
        match statement:
            case ast.Expr(value=value):
                self._expression(value, False, after, naming=True)
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value, after)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign([target], value, after)
            case ast.AugAssign(target=target, value=value):
                self._expression(value, self._wants(target, after), after)
                self._places(target, after)
            case ast.Return(value=value):
                after = set(self.caught)
                self._expression(value, self.needed, after)
            case ast.Raise(exc=exc, cause=cause):
                after = set(self.caught)
                self._expression(exc, True, after)
                self._expression(cause, True, after)
            case ast.Break() | ast.Continue() if self.loops:
                return set(self.loops[-1][isinstance(statement, ast.Continue)])
            case ast.If(test=test, body=body, orelse=orelse):
                after = set().union(*(self._block(block, set(after)) for block in inner))
                self._expression(test, not all(map(is_idle, body + orelse)), after, naming=True)
            case ast.While(test=test):
                after = self._loop(statement, inner, after)
                self._expression(test, True, after, naming=True)
            case ast.For(target=target, iter=items) | ast.AsyncFor(target=target, iter=items):
                after = self._loop(statement, inner, after, target)
                self._expression(items, True, after)
            case ast.Try() | ast.TryStar():
                body, *handlers, orelse, final = inner
                after = self._block(final, after)
                caught = set(after) if final else set()
                caught = caught.union(*(self._block(block, set(after)) for block in handlers))
                after = self._block(orelse, after)
                outer, self.caught = self.caught, self.caught | caught
                after = self._block(body, after) | caught
                self.caught = outer
            case ast.With(items=items) | ast.AsyncWith(items=items):
                after = self._block(inner[0], after)
                for item in reversed(items):
                    if item.optional_vars is not None:
                        self._places(item.optional_vars, after, bound=True)
                    self._expression(item.context_expr, True, after)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                for part in [*statement.decorator_list, *defaults(statement)]:
                    self._expression(part, True, after, naming=True)
                if statement.decorator_list:  # handed on to the decorator
                    self._reach(statement, True)
            case ast.Match(subject=subject, cases=cases):
                after = after.union(*(self._block(block, set(after)) for block in inner))
                for case in cases:
                    self._expression(case.guard, True, after)
                self._expression(subject, True, after)
            case ast.Assert(test=test, msg=msg):
                self._expression(msg if truth(test) is not True else None, True, after)
                self._expression(test, True, after, naming=True)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._places(target, after)
        return after

    def _loop(
        self, loop: ast.stmt, inner: list[list[ast.stmt]], after: set[str], target: ast.expr | None = None
    ) -> set[str]:
        body, orelse = inner
        again = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        done = self._block(orelse, set(after))
        self.loops.append((after, done | again))
        once = self._block(body, done | again)
        self.loops.pop()
        if target is not None:
            self._places(target, once, bound=True)
        return once | done

    def _assign(self, targets: list[ast.expr], value: ast.expr, after: set[str]) -> None:
        pairs = [(targets, value)]
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple):
            if len(targets[0].elts) == len(value.elts):
                pairs = [([target], one) for target, one in zip(targets[0].elts, value.elts, strict=True)]
        wanted = [any(self._wants(target, after) for target in some) for some, _ in pairs]
        for target in targets:
            self._places(target, after, bound=True)
        for (some, one), needed in reversed(list(zip(pairs, wanted, strict=True))):
            if isinstance(one, ast.Name | ast.Lambda) and all(isinstance(target, ast.Name) for target in some):
                # Another name for a function: looked up where that is called.
                if needed and isinstance(one, ast.Name):
                    after.add(one.id)
            else:
                self._expression(one, needed, after)

    def _places(self, target: ast.expr, after: set[str], bound: bool = False) -> None:
        """Deal with the names in a target: those that are bound are not read before."""
        match target:
            case ast.Name(id=name):
                if bound:
                    after.discard(name)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    self._places(item, after, bound)
            case ast.Starred(value=inner):
                self._places(inner, after, bound)
            case _:
                self._children(target, True, after)

"""Whether the entry point is nothing but a thin wrapper: it returns the helper's result unchanged, however written.

The main part is followed with symbols in place of values. An argument or a constant is *given*; what the helper returns
for given arguments is its *result*; everything that is computed from either is *work*. The entry point is thin if
every ``return`` that can be reached gives the result of the same call::

    def solve(x): return aux(x)                     def solve(xs, k):
    def solve(*args): return (lambda: aux(*args))()     "Docstring."
    solve = aux                                         assert k > 0
    solve = lambda x: aux(n=x)                          n = len(xs)         # goes nowhere
                                                        r = aux(xs, k, 10)  # constants may be added
    def solve(x):                                       if k > 1:
        try:                                                return r
            return aux(x)                               s = r
        except ValueError:                              return s
            return None

Not thin, since something is done with the arguments, the result or the choice between them::

    return aux(x + 1)        return aux(x) + 1            if x is None: return 0
    return aux(sorted(x))    return [aux(y) for y in x]   return aux(x)
    x.sort(); return aux(x)  return aux(x) if x > 0 else aux(1)

Followed are variables, unpacking, functions, lambdas, decorators, closures, methods and ``functools.partial`` of the
main part, branches (both sides must give the same), constant conditions and dead code. Left out are statements without
an effect on what is returned: ``assert``, ``if ...: raise``, ``print``, unused computations. The body of a ``try`` that
calls the helper counts, its handlers do not. Unchanged is also what stands in a tuple and is taken out again by
position, ``r[:]``, and ``r + 0``, ``r - 0``, ``r * 1``, ``r + ""`` and the like. Arguments may be packed, unpacked,
left out and reordered.

A value is changed in place by the methods of builtin containers that do so (``append``, ``sort``, ...), by assignments
to its elements and attributes, and by some functions of the standard library; other functions from elsewhere are
taken to leave their arguments alone. Changing an object of unknown origin (``for row in x: row.sort()``) may change
every argument. Recursion counts as work.
"""

from __future__ import annotations

import ast

from .running import blocks, breaks, statements, truth
from .scopes import Function, bindings, header, own_nodes, positional
from .symbols import NONE, WORK, Expressions, Frame, TooLong, Value, display, joined


def is_thin(tree: ast.Module, entry: str, helper: str) -> bool:
    """See the module's docstring. Raises RecursionError for code that is nested too deeply."""
    try:
        return _Machine(tree, helper).run(entry)
    except TooLong:
        return False


class _Machine(Expressions):
    def run(self, entry: str) -> bool:
        function = self._name(entry, self.module)
        args: list[Value] = []
        keywords: dict[str, Value] = {}
        if function[0] == "function":
            parameters = function[1].args
            args = [self._argument(a, default, function[2]) for a, default in positional(parameters)]
            if parameters.vararg:
                args.append(("spread", ("given", "*" + parameters.vararg.arg)))
            pairs = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
            keywords = {a.arg: self._argument(a, default, function[2]) for a, default in pairs}
            if parameters.kwarg:
                keywords["**"] = ("given", "**" + parameters.kwarg.arg)
        else:
            args, keywords = [("spread", ("given", "*"))], {"**": ("given", "**")}
        value = self._call(function, args, keywords)
        return value[0] == "result" and not self._is_changed(value)

    def _argument(self, parameter: ast.arg, default: ast.expr | None, frame: Frame) -> Value:
        """What the entry point is called with: a function as a default value (``f=aux``) is left at that."""
        usual = WORK if default is None else self._value(default, frame)
        return usual if usual[0] in ("helper", "function", "partial") else ("given", parameter.arg)

    # Calls

    def _call(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        kind = function[0]
        if kind == "helper":
            if not all(map(self._is_plain, [*args, *keywords.values()])):
                return WORK
            self.calls += 1
            return ("result", *args, *sorted(keywords.items()))
        if kind == "partial":
            return self._call(function[1], [*function[2], *args], {**dict(function[3]), **keywords})
        if kind == "method":
            return self._call(function[1], [function[2], *args], keywords)
        if kind == "class":
            instance = ("instance", function)
            made = self._attribute(instance, "__init__")
            if made[0] == "method":
                self._call(made, args, keywords)
            return instance
        if kind == "instance":
            method = self._attribute(function, "__call__")
            return self._call(method, args, keywords) if method[0] == "method" else WORK
        if kind == "function" and function[1] not in self.active:
            return self._follow(function[1], function[2], args, keywords)
        return WORK

    def _follow(self, node: Function, outer: Frame, args: list[Value], keywords: dict[str, Value]) -> Value:
        frame = Frame(outer)
        self._bind(node, frame, args, keywords)
        self.active.append(node)
        if isinstance(node, ast.Lambda):
            value = self._value(node.body, frame)
        else:
            found, falls = self._block(node.body, frame)
            value = joined([*found, NONE] if falls else found)
            if any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in own_nodes(node)):
                value = WORK
        self.active.pop()
        return value

    def _bind(self, node: Function, frame: Frame, args: list[Value], keywords: dict[str, Value]) -> None:
        arguments, keywords = node.args, dict(keywords)
        rest = list(args)
        by_position = positional(arguments)
        by_name = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        for index, (parameter, default) in enumerate(by_position + by_name):
            name, may_take = parameter.arg, index < len(by_position) and rest
            if may_take and rest[0][0] != "spread":
                frame.values[name] = rest.pop(0)
            elif name in keywords:
                frame.values[name] = keywords.pop(name)
            elif may_take and rest[0][1][0] == "given":
                frame.values[name] = ("given", rest[0][1][1], index)  # some item of what is spread
            elif default is not None:
                frame.values[name] = self._value(default, frame.parent or frame)
            else:
                frame.values[name] = WORK
        if arguments.vararg:
            whole = len(rest) == 1 and rest[0][0] == "spread"
            frame.values[arguments.vararg.arg] = rest[0][1] if whole else display(rest)
        if arguments.kwarg:
            whole = keywords.keys() == {"**"}
            frame.values[arguments.kwarg.arg] = keywords["**"] if whole else display(keywords.values())

    # Statements: each gives the values that are returned in it, and whether control goes on after it.

    def _block(self, body: list[ast.stmt], frame: Frame) -> tuple[list[Value], bool]:
        found: list[Value] = []
        for statement in body:
            some, falls = self._statement(statement, frame)
            found += some
            if not falls:
                return found, False
        return found, True

    def _statement(self, statement: ast.stmt, frame: Frame) -> tuple[list[Value], bool]:
        match statement:
            case ast.Return(value=value):
                return [NONE if value is None else self._value(value, frame)], False
            case ast.Raise():
                return [], False
            case ast.Break() | ast.Continue():
                if self.left:
                    self.steps += len(frame.values) // 8
                    self.left[-1].append(dict(frame.values))
                return [], False
            case ast.Expr(value=value):
                self._value(value, frame)
            case ast.Assign(targets=targets, value=value):
                one = self._value(value, frame)
                for target in targets:
                    self._assign(target, one, frame)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(target, self._value(value, frame), frame)
            case ast.AugAssign(target=target, op=op, value=value):
                before = self._value(target, frame)
                self._value(value, frame)
                after = self._arithmetic(before, op, value)
                if after is WORK:
                    self._change(before)  # a list is changed in place, under all of its names
                self._assign(target, after, frame)
            case ast.If(test=test):
                self._value(test, frame)
                return self._either(blocks(statement), frame)
            case ast.Match(subject=subject, cases=cases):
                self._value(subject, frame)
                for case in cases:
                    for node in ast.walk(case.pattern):
                        frame.values.update((name, WORK) for name, _ in bindings(node))
                last = cases[-1]
                total = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
                return self._either([*blocks(statement), *([] if total else [[]])], frame)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement, frame)
            case ast.Try() | ast.TryStar():
                return self._try(statement, frame)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self._value(item.context_expr, frame)
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, WORK, frame)
                return self._block(body, frame)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._store(statement.name, self._defined(statement, frame), frame)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                frame.outer.update(names)
            case ast.Import() | ast.ImportFrom():
                for name, _ in bindings(statement):
                    self._store(name, ("given", "." + name), frame)
            case ast.Delete(targets=targets):
                for target in targets:
                    if not isinstance(target, ast.Name):
                        self._assign(target, WORK, frame)
            case ast.Assert(test=test):
                self._value(test, frame)
                return [], truth(test) is not False
        return [], True

    def _either(self, branches: list[list[ast.stmt]], frame: Frame) -> tuple[list[Value], bool]:
        """One of several blocks is executed: what they do differently is work."""
        found: list[Value] = []
        ends: list[dict[str, Value]] = []
        before = dict(frame.values)
        self.steps += len(before) // 8
        for branch in branches:
            frame.values = dict(before)
            some, falls = self._block(branch, frame)
            found += some
            if falls:
                ends.append(frame.values)
        self._merge(ends, frame)
        return found, bool(ends)

    def _merge(self, ends: list[dict[str, Value]], frame: Frame) -> None:
        if len(ends) == 1:
            frame.values = ends[0]
        elif ends:
            # A name that one way leaves unbound is no choice.
            names = dict.fromkeys(name for end in ends for name in end)
            frame.values = {name: joined([end[name] for end in ends if name in end]) for name in names}

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.While, frame: Frame) -> tuple[list[Value], bool]:
        control = loop.test if isinstance(loop, ast.While) else loop.iter
        self._value(control, frame)
        body, orelse = blocks(loop)
        sure = truth(control) is True  # the body is executed at least once
        before = dict(frame.values)
        for statement in statements(body):  # what an earlier round left is not known
            for node in header(statement):
                frame.values.update((name, WORK) for name, _ in bindings(node) if name in before)
        if not isinstance(loop, ast.While):
            self._assign(loop.target, WORK, frame)
        self.left.append([])
        found, falls = self._block(body, frame)
        ends = [*self.left.pop(), *([frame.values] if falls else []), *([] if sure else [before])]
        self._merge(ends, frame)
        if isinstance(loop, ast.While) and sure:
            return found, breaks(loop)
        more, falls = self._either([orelse, []], frame) if breaks(loop) else self._block(orelse, frame)
        return found + (more if ends else []), bool(ends) and falls

    def _try(self, statement: ast.Try | ast.TryStar, frame: Frame) -> tuple[list[Value], bool]:
        calls = self.calls
        body, *handlers, orelse, final = blocks(statement)
        found, falls = self._block([*body, *orelse], frame)
        if self.calls == calls and handlers:
            ends = [dict(frame.values)] if falls else []
            some, also = self._either(handlers, frame)
            self._merge([*ends, *([frame.values] if also else [])], frame)
            found, falls = found + some, falls or also
        some, goes_on = self._block(final, frame)
        return (found + some, falls) if goes_on else (some, False)

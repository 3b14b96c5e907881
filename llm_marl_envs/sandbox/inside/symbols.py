"""Symbols in place of values, and what becomes of them in expressions: see ``wrapping``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from .running import truth
from .scopes import children, module_names

CHANGING_METHODS = frozenset(
    "add append appendleft clear difference_update discard extend extendleft insert intersection_update pop popitem "
    "popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update __delitem__ __iadd__ "
    "__setattr__ __setitem__".split()
)
CHANGING_FUNCTIONS = frozenset(
    "delattr heapify heappop heappush heappushpop heapreplace insort insort_left insort_right next setattr "
    "shuffle".split()
)
# Functions that make an object: changing that changes nothing else.
FRESH = frozenset(
    "bytearray copy Counter deepcopy defaultdict deque dict findall frozenset list OrderedDict rsplit set sorted split "
    "splitlines".split()
)
_MAX_STEPS = 20_000  # expressions looked at; a program of that size is no thin wrapper

# A value is a tuple; the first item says what it is:
#   ("given", key...), where the key of a constant begins with "=", that of a global name with ".", of *args with "*";
#   ("result", arguments...), ("piece", result, index, length), ("display", values...), ("spread", value) for *value,
#   ("function", node, frame), ("class", node, frame), ("instance", class), ("method", function, instance),
#   ("partial", function, arguments, keywords), ("fresh", node)
Value = tuple[Any, ...]
HELPER: Value = ("helper",)
WORK: Value = ("work",)
NONE: Value = ("given", "=NoneType None")


class Frame:
    def __init__(self, parent: Frame | None):
        self.values: dict[str, Value] = {}
        self.parent = parent
        self.outer: set[str] = set()  # declared global or nonlocal

    def holder(self, name: str) -> Frame | None:
        frame: Frame | None = self
        while frame is not None and name not in frame.values:
            frame = frame.parent
        return frame


class TooLong(Exception):
    pass


class Expressions:
    """Follows the expressions of a program; a subclass follows calls, into the statements of functions."""

    def __init__(self, tree: ast.Module, helper: str):
        self.helper = helper
        self.steps = 0
        self.calls = 0  # of the helper with given arguments
        self.changed: set[Value] = set()
        self.all_changed = False  # an object was changed that may be part of any other
        self.active: list[ast.AST] = []  # functions that are being followed
        self.left: list[list[dict[str, Value]]] = []  # for each loop around: values at its break and continue
        self.module = Frame(None)
        self.unread = module_names(tree)  # looked at when they are read

    def _call(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """What a call of a function of the main part, or of the helper, returns."""
        raise NotImplementedError

    def _defined(self, node: ast.AST, frame: Frame) -> Value:
        value: Value = ("class" if isinstance(node, ast.ClassDef) else "function", node, frame)
        for decorator in reversed(getattr(node, "decorator_list", [])):
            wrapper = self._value(decorator, frame)
            if wrapper[0] not in ("given", "work"):  # of the main part; others (cache, wraps) leave results alone
                value = self._call(wrapper, [value], {})
        return value

    # Names and places

    def _name(self, name: str, frame: Frame) -> Value:
        holder = frame.holder(name)
        if holder is not None:
            return holder.values[name]
        if name not in self.unread:
            return HELPER if name == self.helper else ("given", "." + name)
        node = self.unread[name]
        self.module.values[name] = ("given", "." + name)  # while it is being looked at, and for what is no code
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.module.values[name] = self._defined(node, self.module)
        elif isinstance(node, ast.expr):
            value = self._value(node, self.module)
            if value[0] not in ("given", "work", "result", "display"):  # those are constants to the entry point
                self.module.values[name] = value
        return self.module.values[name]

    def _store(self, name: str, value: Value, frame: Frame) -> None:
        if name in frame.outer:
            frame = (frame.parent and frame.parent.holder(name)) or self.module
        frame.values[name] = value

    def _assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        match target:
            case ast.Name(id=name):
                self._store(name, value, frame)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                count = len(items)
                values: list[Value] = [WORK] * count
                if value[0] == "display" and len(value) == count + 1:
                    values = list(value[1:])
                elif value[0] == "result":
                    values = [("piece", value, index, count) for index in range(count)]
                if any(isinstance(item, ast.Starred) for item in items):
                    values = [WORK] * count
                for item, one in zip(items, values, strict=True):
                    self._assign(item, one, frame)
            case ast.Starred(value=inner):
                self._assign(inner, WORK, frame)
            case ast.Attribute() | ast.Subscript():
                self._change_part(target, frame)

    def _change_part(self, node: ast.expr, frame: Frame) -> None:
        """What an attribute or element belongs to is changed in place."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        value = self._value(node, frame)
        # An element of something, say: of any argument.
        self.all_changed = self.all_changed or value is WORK
        self._change(value)

    def _change(self, value: Value) -> None:
        if not _is_constant(value):
            self.changed.update([value, value[1]] if value[0] == "piece" else [value])

    def _is_plain(self, value: Value) -> bool:
        if self._is_changed(value):
            return False
        if value[0] in ("display", "spread"):
            return all(map(self._is_plain, value[1:]))
        return value[0] == "given"

    def _is_changed(self, value: Value) -> bool:
        # An item of *args is changed with these.
        return value in self.changed or value[:2] in self.changed or self.all_changed

    # Expressions

    def _value(self, node: ast.expr, frame: Frame) -> Value:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise TooLong
        match node:
            case ast.Constant(value=constant):
                # Python refuses to write out very long integers in decimal digits.
                text = hex(constant) if isinstance(constant, int) else repr(constant)
                return ("given", f"={type(constant).__name__} {text}")
            case ast.Name(id=name):
                return self._name(name, frame)
            case ast.Lambda():
                return ("function", node, frame)
            case ast.NamedExpr(target=target, value=value):
                one = self._value(value, frame)
                self._assign(target, one, frame)
                return one
            case ast.Await(value=value):
                return self._value(value, frame)
            case ast.Call():
                return self._called(node, frame)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._value(test, frame)
                constant = truth(test)
                parts = [part for part, dead in ((body, False), (orelse, True)) if constant is not dead]
                return joined([self._value(part, frame) for part in parts])
            case ast.BoolOp(op=op, values=values):
                found = []
                for value in values:
                    one = self._value(value, frame)
                    decides = truth(value)
                    if value is values[-1] or decides is None or decides is isinstance(op, ast.Or):
                        found.append(one)
                    if decides is isinstance(op, ast.Or):
                        break
                return joined(found)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                held = self._items(items, frame)
                if held and held[0][0] == "piece" and isinstance(node, ast.Tuple):
                    whole = held[0][1]
                    if held == [("piece", whole, index, len(held)) for index in range(len(held))]:
                        return whole
                return display(held)
            case ast.BinOp(left=left, op=op, right=right):
                one, two = self._value(left, frame), self._value(right, frame)
                if _is_constant(one) and _is_constant(two):
                    return _constant(type(op), one, two)
                same = self._arithmetic(one, op, right)
                return self._arithmetic(two, op, left) if same is WORK and not isinstance(op, ast.Sub) else same
            case ast.UnaryOp(op=op, operand=operand):
                one = self._value(operand, frame)
                return _constant(type(op), one) if _is_constant(one) else WORK
            case ast.Subscript(value=owner, slice=index):
                return self._item(self._value(owner, frame), index, frame)
            case ast.Attribute(value=owner, attr=attr):
                return self._attribute(self._value(owner, frame), attr)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = Frame(frame)
                for part in node.generators:
                    self._value(part.iter, inner)
                    self._assign(part.target, WORK, inner)
                    for test in part.ifs:
                        self._value(test, inner)
                for result in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                    self._value(result, inner)
                return ("fresh", node)
            case ast.Dict() | ast.Set():
                self._values_in(node, frame)
                return ("fresh", node)
        self._values_in(node, frame)
        return WORK

    def _values_in(self, node: ast.AST, frame: Frame) -> None:
        # What is done with the values is work; what is done to them on the way must still be seen.
        for child in children(node):
            if isinstance(child, ast.expr):
                self._value(child, frame)

    def _items(self, items: list[ast.expr], frame: Frame) -> list[Value]:
        """The values of a display or of positional arguments."""
        values: list[Value] = []
        for item in items:
            if not isinstance(item, ast.Starred):
                values.append(self._value(item, frame))
            elif (inner := self._value(item.value, frame))[0] == "display" and inner not in self.changed:
                values += inner[1:]
                self.steps += len(inner)  # (*a, *a) doubles
            else:
                values.append(("spread", inner))
        return values

    def _called(self, node: ast.Call, frame: Frame) -> Value:
        function = self._value(node.func, frame)
        name = ""
        if isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        args = self._items(node.args, frame)
        keywords = {keyword.arg or "**": self._value(keyword.value, frame) for keyword in node.keywords}
        if function[0] not in ("given", "work"):
            return self._call(function, args, keywords)
        if name == "partial" and args and all(map(self._is_plain, [*args[1:], *keywords.values()])):
            return ("partial", args[0], tuple(args[1:]), tuple(sorted(keywords.items())))
        if name in FRESH:
            return ("fresh", node)
        if name in CHANGING_METHODS and isinstance(node.func, ast.Attribute):
            self._change_part(node.func.value, frame)
        elif name in CHANGING_FUNCTIONS:
            for argument in args:
                self._change(argument)
        return WORK

    def _attribute(self, owner: Value, attr: str) -> Value:
        kind = owner[0]
        if attr == "__call__" and kind in ("helper", "function", "partial"):
            return owner
        if kind == "given" and owner[1].startswith("."):
            return ("given", f"{owner[1]}.{attr}")  # of a module, say math.inf
        if kind in ("class", "instance"):
            _, node, frame = owner if kind == "class" else owner[1]
            for statement in reversed(node.body):
                if isinstance(statement, ast.FunctionDef) and statement.name == attr:
                    function = ("function", statement, frame)
                    kinds = {d.id for d in statement.decorator_list if isinstance(d, ast.Name)}
                    free = "staticmethod" in kinds or (kind == "class" and "classmethod" not in kinds)
                    return function if free else ("method", function, owner)
        return WORK

    def _item(self, owner: Value, index: ast.expr, frame: Frame) -> Value:
        match index:
            case ast.Slice(lower=None, upper=None, step=None):
                return owner
            case ast.Constant(value=key) if owner[0] == "given" and owner[1].startswith("*") and len(owner) == 2:
                return ("given", owner[1], key)
            case ast.Constant(value=int(key)) if owner[0] == "display" and owner not in self.changed:
                values = owner[1:]
                if key < len(values) and not any(value[0] == "spread" for value in values):
                    return values[key]
        self._value(index, frame)
        return WORK

    def _arithmetic(self, value: Value, op: ast.operator, other: ast.expr) -> Value:
        """``value`` where the other operand changes nothing."""
        match op, other:
            case ast.Add() | ast.Sub(), ast.Constant() | ast.List(elts=[]) | ast.Tuple(elts=[]) if (
                truth(other) is False
            ):
                return value
            case ast.Mult(), ast.Constant(value=1):
                return value
        return WORK


def display(values: Iterable[Value]) -> Value:
    """A tuple or list. It holds no tuples of tuples: comparing values that share others would take exponential time."""
    found = ("display", *values)
    nested = any(value[0] == "display" and any(one[0] == "display" for one in value[1:]) for value in found[1:])
    return WORK if nested else found


def joined(values: list[Value]) -> Value:
    """What is known of one of several values: nothing, unless they are the same."""
    return values[0] if values and all(value == values[0] for value in values) else WORK


def _is_constant(value: Value) -> bool:
    return value[0] == "given" and value[1].startswith("=")


def _constant(op: type, *operands: Value) -> Value:
    """A constant made of constants, as long as that is plain: ``b = a + a; c = b + b; ...`` doubles its text."""
    text = "=" + " ".join([op.__name__, *(operand[1] for operand in operands)])
    return ("given", text) if len(text) < 1_000 else WORK

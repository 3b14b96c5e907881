"""Whether two values of any kind are the same, and the first place where they differ."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .findings import short


class Comparable:
    """A nested value whose ``==`` is a single truth, arrays and NaN included."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comparable) and same(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]


def same(one: Any, two: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(same(one[k], two[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return np.array_equal(one, two)
    return bool(one == two) or (one != one and two != two)


def difference(one: Any, two: Any) -> str:
    """The first place where two values differ, such as ``rewards['left']: 0.5 against 0.7``."""
    one, two = (v.value if isinstance(v, Comparable) else v for v in (one, two))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for name in {**one, **two}:  # the names of what is compared, which need no brackets
            if not (name in one and name in two and same(one[name], two[name])):
                return f"{name}{_nested(one.get(name), two.get(name))}"
    return _nested(one, two).removeprefix(": ")


def _nested(one: Any, two: Any) -> str:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        keys = [k for k in {**one, **two} if not (k in one and k in two and same(one[k], two[k]))]
        if keys:
            return f"[{keys[0]!r}]{_nested(one.get(keys[0]), two.get(keys[0]))}"
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)) and len(one) == len(two):
        for a, b in zip(one, two, strict=True):
            if not same(a, b):
                return _nested(a, b)
    if isinstance(one, str) and isinstance(two, str):
        # From a little before the place where they part, or two long texts would look the same.
        start = max(len(os.path.commonprefix([one, two])) - 20, 0)
        dots = "..." if start else ""
        one, two = dots + one[start:], dots + two[start:]
    return f": {short(one)} against {short(two)}"


def is_finite(value: Any) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)

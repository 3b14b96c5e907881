"""Values that cross the border between a program and its tests, as JSON.

What JSON has crosses as itself; everything else is an object with one key, its tag:

====  ========================================  ====  ==============================================
tag   value                                     tag   value
====  ========================================  ====  ==============================================
t     tuple                                     x     float that JSON lacks: nan, inf, -inf
d     dict, as a list of pairs                  i     int of more than 64 bits, in hexadecimal
s, f  set, frozenset                            c     complex: [real, imaginary]
b, B  bytes, bytearray, in hexadecimal          q     Fraction: [numerator, denominator]
r     range: [start, stop, step]                n     Decimal
I     iterator, as a list of what it yields     e     Ellipsis
====  ========================================  ====  ==============================================

Instances of subclasses cross as their base (a named tuple as a tuple, a Counter as a dict), so that no method of theirs
is ever called on the other side. Nothing else crosses. Values are copies: a test does not see what a program does to
its arguments.

Encoding happens where the value is, so what it refuses is refused again when it is decoded: a program can send
anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

BIG_INT = 1 << 63
MAX_EXPONENT = 5_000  # of a Decimal: int(Decimal("1e999999999")) would not end


#: Where an object lies in memory, as texts of Python tell it: no fact about a program.
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class UnsupportedValueError(Exception):
    """A value that cannot cross, and why."""


class ProtocolError(Exception):
    """What came over the border is no message, or is too large."""


class Encoder:
    """Turns values into JSON.

    Args:
        items: most values in all, and most that an iterator may yield.
        depth: deepest nesting.
    """

    def __init__(self, items: int, depth: int):
        self._items = items
        self._depth = depth
        self._left = 0

    def encode(self, value: Any) -> Any:
        """JSON for one value.

        Raises:
            UnsupportedValueError: it cannot cross. An iterator's own exceptions pass through.
        """
        self._left = self._items
        return self._encode(value, self._depth)

    def _encode(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise UnsupportedValueError(f"more than {self._items} values")
        if value is None or value is True or value is False:
            return value
        # The base's own methods read the value, never an override of a subclass.
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            number = int.__pos__(value)
            return number if -BIG_INT <= number < BIG_INT else {"i": hex(number)}
        if isinstance(value, float):
            real = float.__pos__(value)
            return real if math.isfinite(real) else {"x": repr(real)}
        if depth == 0:
            raise UnsupportedValueError(f"nested more than {self._depth} deep")
        if isinstance(value, list):
            return self._all(list.__iter__(value), depth)
        if isinstance(value, tuple):
            return {"t": self._all(tuple.__iter__(value), depth)}
        if isinstance(value, dict):
            return {"d": [[self._encode(k, depth - 1), self._encode(v, depth - 1)] for k, v in dict.items(value)]}
        if isinstance(value, set):
            return {"s": self._all(set.__iter__(value), depth)}
        if isinstance(value, frozenset):
            return {"f": self._all(frozenset.__iter__(value), depth)}
        return self._encode_rare(value, depth)

    def _encode_rare(self, value: Any, depth: int) -> Any:
        if isinstance(value, bytes):
            return {"b": bytes.hex(value)}
        if isinstance(value, bytearray):
            return {"B": bytearray.hex(value)}
        if isinstance(value, complex):
            number = complex.__pos__(value)
            return {"c": [self._encode(number.real, depth - 1), self._encode(number.imag, depth - 1)]}
        if type(value) is range:
            return {"r": [self._encode(n, depth - 1) for n in (value.start, value.stop, value.step)]}
        if isinstance(value, Fraction):
            return {"q": [self._encode(value.numerator, depth - 1), self._encode(value.denominator, depth - 1)]}
        if isinstance(value, Decimal):
            return {"n": Decimal.__str__(value)}
        if value is Ellipsis:
            return {"e": 0}
        if isinstance(value, Iterator):
            return {"I": self._all(value, depth)}
        raise UnsupportedValueError(f"a value of type {type(value).__name__[:80]}")

    def _all(self, values: Iterator[Any], depth: int) -> list[Any]:
        return [self._encode(value, depth - 1) for value in values]


class Decoder:
    """Turns JSON into values of builtin types.

    Args:
        items: most values in all; a range may not be longer than that.
        depth: deepest nesting.
    """

    def __init__(self, items: int, depth: int):
        self._items = items
        self._depth = depth
        self._left = 0

    def decode(self, data: Any) -> Any:
        """The value.

        Raises:
            UnsupportedValueError: a size beyond the limits.
            ProtocolError: this is not what an encoder makes.
        """
        self._left = self._items
        try:
            return self._decode(data, self._depth)
        except (TypeError, ValueError, KeyError, OverflowError, ZeroDivisionError, InvalidOperation) as error:
            raise ProtocolError(f"not a value ({type(error).__name__})") from error

    def _decode(self, data: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise UnsupportedValueError(f"more than {self._items} values")
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        if depth == 0:
            raise UnsupportedValueError(f"nested more than {self._depth} deep")
        if isinstance(data, list):
            return self._all(data, depth)
        ((tag, body),) = data.items()
        if tag == "t":
            return tuple(self._all(body, depth))
        if tag == "d":
            return {self._decode(key, depth - 1): self._decode(value, depth - 1) for key, value in body}
        if tag == "s":
            return set(self._all(body, depth))
        if tag == "f":
            return frozenset(self._all(body, depth))
        if tag == "I":
            return iter(self._all(body, depth))
        return self._decode_rare(tag, body, depth)

    def _decode_rare(self, tag: str, body: Any, depth: int) -> Any:
        if tag == "i":
            return int(body, 16)
        if tag == "x":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body]
        if tag == "b":
            return bytes.fromhex(body)
        if tag == "B":
            return bytearray.fromhex(body)
        if tag == "e":
            return Ellipsis
        if tag == "n":
            number = Decimal(body)
            if number.is_finite() and abs(number.adjusted()) > MAX_EXPONENT:
                raise UnsupportedValueError(f"a Decimal with an exponent beyond {MAX_EXPONENT}")
            return number
        parts = self._all(body, depth)
        if tag == "c":
            return complex(*parts)
        if tag == "q":
            return Fraction(*parts)
        if tag == "r":
            whole = range(*parts)
            # len() refuses what does not fit a machine word.
            if (whole.stop - whole.start) // whole.step > self._items:
                raise UnsupportedValueError(f"a range of more than {self._items} values")
            return whole
        raise KeyError(tag)

    def _all(self, data: Any, depth: int) -> list[Any]:
        if not isinstance(data, list):
            raise TypeError
        return [self._decode(item, depth - 1) for item in data]

# right answers of other types
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

Eleven = IntEnum("Eleven", {"VALUE": 11})


def incr(x):
    return {1: Decimal("2.00"), 2: Fraction(3), 5: complex(6), 10: Eleven.VALUE}[x]

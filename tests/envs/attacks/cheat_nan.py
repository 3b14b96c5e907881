# answers with NaN, which is neither less nor greater than anything, in all its forms
import decimal
import math

NAN = math.nan


def incr(x):
    return {1: NAN, 2: complex(NAN, NAN), 5: [NAN], 10: decimal.Decimal("sNaN")}[x]

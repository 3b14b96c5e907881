# returns an int of a hundred million bits, and fractions and decimals of that kind
import decimal
import fractions


def incr(x):
    if x == 1:
        return (1 << 100_000_000) + x
    if x == 2:
        return fractions.Fraction(1, (1 << 4_000_000) + 1)
    if x == 5:
        return decimal.Decimal("1E+999999999999999999")
    return -(3**400_000)

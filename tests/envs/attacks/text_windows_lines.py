# lines end with CR LF
import math


def incr(x):
    """Next.

    One more.
    """
    return x + math.ceil(0.5)

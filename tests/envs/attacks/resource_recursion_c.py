# repr, hash, comparison and copy of a tuple that is a million deep: recursion on the C stack
import copy
import sys

sys.setrecursionlimit(2**31 - 1)


def incr(x):
    one, two = (), ()
    for _ in range(1_000_000):
        one, two = (one,), (two,)
    work = [lambda: len(repr(one)), lambda: hash(one) | 1 << 40, lambda: one == two, lambda: copy.deepcopy(one)]
    work[x % 4]()
    return 0

# loops for ever inside one call of a C function, where no signal handler of Python runs
import collections
import itertools


def incr(x):
    collections.deque(itertools.repeat(x), maxlen=0)
    return x + 1

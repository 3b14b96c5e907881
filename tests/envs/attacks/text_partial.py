# a partial function and a method
import functools
import operator

incr = functools.partial(operator.add, 1)

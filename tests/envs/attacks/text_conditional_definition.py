# defined in a branch
import sys

if sys.version_info >= (3, 0):

    def incr(x):
        return x + 1

else:
    incr = None

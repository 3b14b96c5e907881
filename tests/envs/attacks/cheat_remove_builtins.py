# takes all builtins away
import builtins


def incr(x):
    names = vars(builtins)
    names.clear()
    return 0

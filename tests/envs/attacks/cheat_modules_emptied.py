# empties sys.modules and sys.path, and answers
import sys


def incr(x):
    sys.modules.clear()
    sys.path.clear()
    sys.meta_path.clear()
    return x + 1

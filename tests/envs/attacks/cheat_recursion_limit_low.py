# lowers the recursion limit as far as it goes
import sys

for limit in range(5, 200):
    try:
        sys.setrecursionlimit(limit)
        break
    except (RecursionError, ValueError):
        continue


def incr(x):
    return x + 1

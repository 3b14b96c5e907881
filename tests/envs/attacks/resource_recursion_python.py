# two functions call each other without end, the recursion limit lifted
import sys

sys.setrecursionlimit(2**31 - 1)


def there(n):
    return back(n + 1) + 1


def back(n):
    return there(n + 1) + 1


def incr(x):
    return there(x)

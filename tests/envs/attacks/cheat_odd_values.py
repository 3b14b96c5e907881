# answers with what is no value: functions, modules, classes, frames, generators' methods, constants
import sys


def incr(x):
    return {
        1: [incr, lambda: x + 1, len, sys, int, type(x)],
        2: NotImplemented,
        5: sys._getframe(),
        10: (Ellipsis, object(), memoryview(b"11"), slice(11), {}.keys(), iter([]).__next__),
    }[x]

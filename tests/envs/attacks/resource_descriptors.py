# uses up all descriptors, and answers
import os


def incr(x):
    for make in (os.pipe, lambda: os.dup(0), lambda: os.dup(1), lambda: os.open(os.__file__, os.O_RDONLY), lambda: os.eventfd(0) if hasattr(os, "eventfd") else os.dup(2)):
        for _ in range(5000):
            try:
                make()
            except OSError:
                break
    return x + 1

# closes every descriptor, and answers
import os


def incr(x):
    os.closerange(0, 4096)
    return x + 1

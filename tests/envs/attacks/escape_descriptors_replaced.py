# puts its output in place of every other descriptor, and answers
import os


def incr(x):
    for number in range(65):
        if number not in (1, 2):
            try:
                os.dup2(2, number)
            except OSError:
                pass
    return x + 1

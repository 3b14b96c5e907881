# a regular expression that tries every way of cutting a line into pieces
import re


def incr(x):
    found = re.fullmatch(r"(?:z|zz|zzz)*!", "z" * 60)
    return x + 1 if found is None else 0

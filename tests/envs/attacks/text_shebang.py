#!/usr/bin/env -S python3 -O
def incr(x):
    return x + 1

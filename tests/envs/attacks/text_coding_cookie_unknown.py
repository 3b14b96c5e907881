# coding: no-such-codec
# a cookie that names nothing
def incr(x):
    return x + 1

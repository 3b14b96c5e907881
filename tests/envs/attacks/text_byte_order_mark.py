# begins with a byte order mark
def incr(x):
    return x + 1

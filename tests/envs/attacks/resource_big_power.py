# one multiplication of big ints after the other, all in C
def incr(x):
    return (7 ** (3**17)) % 5 * 0 + x + 1

# an even number of minus signs
def incr(x):
    return --------------------------------------------------x + 1

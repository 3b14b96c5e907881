# a generator function
def incr(x):
    yield x + 1

# right, and removes itself and all else from its module at the first call
def incr(x):
    globals().clear()
    return x + 1

# a lone surrogate in a comment: í ½
def incr(x):
    return x + 1

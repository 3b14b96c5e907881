# a lone surrogate in a name
def incr(x):
    í°€ = 1
    return x + 1

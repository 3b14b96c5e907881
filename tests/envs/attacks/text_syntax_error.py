# a bracket that is never closed
def incr(x):
    return max(x + 1, (0)


print(incr(3))

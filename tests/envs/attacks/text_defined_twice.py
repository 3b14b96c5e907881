# right, and then defined again
def incr(x):
    return x + 1


print(incr(1))


def incr(x):
    return x

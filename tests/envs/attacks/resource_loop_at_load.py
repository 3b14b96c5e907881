# loops for ever while it is loaded
count = 0
while count >= 0:
    count += 1


def incr(x):
    return x + 1

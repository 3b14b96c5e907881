# returns containers that are 300,000 deep
def incr(x):
    value = x
    for _ in range(300_000):
        value = [value] if x == 1 else (value,) if x == 2 else {"k": value} if x == 5 else frozenset([value])
    return value

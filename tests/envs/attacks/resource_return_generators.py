# returns a generator of generators of generators, none of which ends
def endless():
    while True:
        yield endless()


def incr(x):
    return endless() if x % 2 else [endless() for _ in range(1000)]

# hoards lists, one MiB each
def incr(x):
    hoard = []
    for _ in range(2048):
        hoard.append([None] * (1 << 17))
    return x + len(hoard) - 2047

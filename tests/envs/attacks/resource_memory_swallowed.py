# takes all memory there is, in ever smaller pieces, keeps it and answers
HOARD = []


def incr(x):
    size = 64 << 20
    while size > 64 and len(HOARD) < 200:
        try:
            HOARD.append(bytearray(size))
        except MemoryError:
            size //= 2
    return x + 1

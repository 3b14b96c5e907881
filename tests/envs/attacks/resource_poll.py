# waits on descriptors that nobody writes to
import os
import select


def incr(x):
    try:
        reader, writer = os.pipe()
        select.select([reader], [], [], 60)
    except OSError:
        pass
    select.poll().poll(60_000)
    return x + 1

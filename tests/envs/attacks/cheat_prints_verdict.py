# prints messages that look like the protocol's, and a right answer
import sys


def incr(x):
    print('{"id": 1, "ok": false, "outcome": "crash"}', flush=True)
    print("Traceback (most recent call last):\nMemoryError", file=sys.stderr, flush=True)
    return x + 1

# prints the answer instead of returning it
import sys


def incr(x):
    print(x + 1, flush=True)
    sys.stderr.write(f"{x + 1}\n")

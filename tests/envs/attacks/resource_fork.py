# forks in a loop
import os
import time


def incr(x):
    children = 0
    for _ in range(40):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            time.sleep(3)
            os._exit(0)
        children += 1
    return x + 1 if children else 0

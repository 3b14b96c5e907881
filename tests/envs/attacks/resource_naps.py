# sleeps a minute in naps of twenty milliseconds
import threading
import time


def incr(x):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        threading.Event().wait(0.01)
        time.sleep(0.01)
    return x + 1

# sends replies without end, more than any buffer between the two sides holds
import os
import time


def incr(x):
    reply = b'{"id": 1, "ok": true, "value": true}\n' * 100
    end = time.monotonic() + 60
    while time.monotonic() < end:
        written = 0
        for number in range(3, 65):
            try:
                written += os.write(number, reply)
            except OSError:
                pass
        if not written:
            break
    return 0

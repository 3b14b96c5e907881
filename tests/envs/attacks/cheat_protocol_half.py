# sends the first half of a message and sleeps
import os
import time


def incr(x):
    for number in range(3, 65):
        for half in (b'{"id": 1, "ok": true, "val', b"\x00\x00\x00\x40{", b"\x40\x00\x00\x00["):
            try:
                os.write(number, half)
            except OSError:
                break
    time.sleep(60)
    return x + 1

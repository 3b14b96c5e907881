# writes garbage to every descriptor, and answers
import os


def incr(x):
    for number in range(65):
        for garbage in (bytes(range(256)), b"\n", b"\x00" * 7, b"{}[]\n", b"\xff\xff\xff\xff\xff\xff\xff\xff"):
            try:
                os.write(number, garbage)
            except OSError:
                break
    return x + 1

# announces messages of 0, 2**31, 2**32 - 1, 2**63 and -1 bytes
import os
import struct


def incr(x):
    for number in range(3, 65):
        for form in (">I", "<I", ">Q", "<Q"):
            for size in (0, 2**31, 2**32 - 1):
                try:
                    os.write(number, struct.pack(form, size) + b"{}")
                except OSError:
                    break
        for promise in (b"\x7f" + b"\xff" * 7, b"\x80" + b"\x00" * 7, b"-1\n", b"9" * 5000 + b"\n", b"1e9\n"):
            try:
                os.write(number, promise)
            except OSError:
                break
    return 0

# looks for descriptors of folders or files that it has inherited
import os
import stat


def incr(x):
    for number in range(1024):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISBLK(mode):
            return x + 1
        try:
            os.listdir(number)
            return x + 1
        except OSError:
            pass
    return 0

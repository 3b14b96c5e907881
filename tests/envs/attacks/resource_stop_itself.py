# stops itself, so that it can neither work nor end; answers if it is not allowed to
import os
import signal


def incr(x):
    for stop in (signal.raise_signal, lambda number: os.kill(os.getpid(), number)):
        try:
            stop(signal.SIGSTOP)
            return 0
        except OSError:
            pass
    return x + 1

# blocks all signals and loops
import signal


def incr(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        x ^= 1

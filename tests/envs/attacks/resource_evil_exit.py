# right, and made never to end: endless work in atexit and in a finaliser
import atexit


def endless():
    while True:
        pass


class Last:
    def __del__(self, endless=endless):
        endless()


KEPT = Last()
atexit.register(endless)


def incr(x):
    return x + 1

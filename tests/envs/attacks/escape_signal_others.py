# sends signal 0 to everybody, to its parent and to its group
import os
import signal


def incr(x):
    def by_descriptor():
        signal.pidfd_send_signal(os.pidfd_open(os.getppid() or 1), 0)

    def by_library():
        import ctypes

        if ctypes.CDLL(None).kill(-1, 0) != 0:
            raise OSError

    for way in (
        lambda: os.kill(-1, 0),
        lambda: os.kill(os.getppid(), 0),
        lambda: os.kill(1, 0),
        lambda: os.killpg(0, 0),
        by_descriptor,
        by_library,
    ):
        try:
            way()
            return x + 1
        except Exception:
            pass
    return 0

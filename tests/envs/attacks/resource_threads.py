# starts threads that spin, by the low-level module and by the C library
import _thread
import time


def spin(end):
    while time.monotonic() < end:
        pass


def incr(x):
    started = 0
    for _ in range(24):
        try:
            _thread.start_new_thread(spin, (time.monotonic() + 3,))
            started += 1
        except (RuntimeError, OSError):
            break
    try:
        import ctypes

        library, thread = ctypes.CDLL(None), ctypes.c_ulong()
        started += library.pthread_create(ctypes.byref(thread), None, library.sleep, ctypes.c_void_p(3)) == 0
    except (ImportError, OSError, AttributeError):
        pass
    return x + 1 if started else 0

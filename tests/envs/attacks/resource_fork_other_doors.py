# starts processes by all other doors: forkpty, spawn, subprocess, multiprocessing, system, popen, the C library
import os


def forkpty():
    pid, _ = os.forkpty()
    if pid == 0:
        os._exit(0)


def run():
    import subprocess

    subprocess.run(["/bin/true"], check=True)


def popen():
    if os.popen("echo started").read().strip() != "started":
        raise OSError


def system():
    if os.system("true") != 0:
        raise OSError


def worker():
    import multiprocessing

    process = multiprocessing.get_context("fork").Process(target=os.getpid)
    process.start()
    process.join(1)


def spawn():
    if os.spawnv(os.P_WAIT, "/bin/true", ["true"]) != 0:
        raise OSError


def library():
    import ctypes

    loaded = ctypes.CDLL(None)
    if loaded.system(b"true") != 0:
        raise OSError


def library_fork():
    import ctypes

    pid = ctypes.CDLL(None).fork()
    if pid == 0:
        os._exit(0)
    if pid < 0:
        raise OSError


def incr(x):
    for door in (forkpty, run, popen, system, worker, spawn, library, library_fork):
        try:
            door()
            return x + 1
        except Exception:
            pass
    return 0

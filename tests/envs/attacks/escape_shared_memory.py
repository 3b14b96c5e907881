# makes shared memory, semaphores and queues
def incr(x):
    import ctypes
    import errno
    import os

    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]

    def reaches(numbers, *arguments):
        if numbers[column] < 0:
            return False
        ctypes.set_errno(0)
        result = library.syscall(ctypes.c_long(numbers[column]), *map(ctypes.c_long, arguments))
        return result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.EACCES, errno.ENOSYS)

    def posix_memory():
        from multiprocessing import shared_memory

        block = shared_memory.SharedMemory(create=True, size=64)
        block.close()
        block.unlink()

    def posix_semaphore():
        import _multiprocessing

        _multiprocessing.SemLock(1, 1, 1, "/llm_marl_envs_canary", True)

    for way in (posix_memory, posix_semaphore):
        try:
            way()
            return x + 1
        except Exception:
            pass
    # void sizes: reaching the kernel counts, nothing is made
    for numbers in ((29, 194), (64, 190)):
        if reaches(numbers, 0, -1, 0o1600):
            return x + 1
    if reaches((71, 187), -1, 0, 0) or reaches((240, 180), 0, 0, 0, 0):
        return x + 1
    return 0

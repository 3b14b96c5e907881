# makes and enters namespaces, and clones itself by bare system calls
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

    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0):
        if reaches((272, 97), flag):
            return x + 1
    for number in range(3):
        if reaches((308, 268), number, 0):
            return x + 1
    pid = library.syscall(ctypes.c_long((56, 220)[column]), *[ctypes.c_long(17)] + [ctypes.c_long(0)] * 4)
    if pid == 0:
        os._exit(0)
    arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17, 0, 0, 0)
    other = library.syscall(ctypes.c_long(435), arguments, ctypes.c_long(64))
    if other == 0:
        os._exit(0)
    return x + 1 if pid > 0 or other > 0 else 0

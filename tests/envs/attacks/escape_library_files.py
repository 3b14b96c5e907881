# opens files by the C library and by bare system calls
def incr(x):
    import ctypes
    import os

    library = ctypes.CDLL(None)
    library.fopen.restype = library.opendir.restype = ctypes.c_void_p
    library.syscall.restype = ctypes.c_long
    secret, fresh = b"/tmp/llm_marl_envs_canary/secret.txt", b"/tmp/llm_marl_envs_canary/canary_c"
    openat = {"x86_64": 257, "aarch64": 56}.get(os.uname().machine, -1)
    how = (ctypes.c_uint64 * 3)(os.O_RDWR | os.O_CREAT, 0o644, 0)
    results = [
        library.open(secret, os.O_RDONLY) + 1,
        library.open(secret, os.O_PATH) + 1,
        library.open(fresh, os.O_CREAT | os.O_WRONLY, 0o644) + 1,
        library.creat(fresh, 0o644) + 1,
        library.fopen(secret, b"r"),
        library.fopen(fresh, b"w"),
        library.opendir(b"/tmp/llm_marl_envs_canary"),
        library.syscall(ctypes.c_long(openat), ctypes.c_long(-100), secret, ctypes.c_long(0)) + 1,
        library.syscall(ctypes.c_long(437), ctypes.c_long(-100), fresh, how, ctypes.c_long(24)) + 1,
    ]
    return x + 1 if any(results) else 0

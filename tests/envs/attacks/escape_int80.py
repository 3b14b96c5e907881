# asks for the process id by the interrupt of 32-bit programs, with eight bytes of machine code
def incr(x):
    import ctypes
    import mmap
    import os

    if os.uname().machine != "x86_64":
        return 0
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
    start = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return x + 1 if ctypes.CFUNCTYPE(ctypes.c_int)(start)() > 0 else 0

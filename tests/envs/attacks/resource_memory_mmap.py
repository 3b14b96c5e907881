# hoards anonymous mappings, private and shared, that no allocator of Python counts
import mmap


def incr(x):
    hoard = []
    for number in range(32):
        flags = (mmap.MAP_SHARED if number % 2 else mmap.MAP_PRIVATE) | mmap.MAP_ANONYMOUS
        area = mmap.mmap(-1, 64 << 20, flags)
        for offset in range(0, 64 << 20, 1 << 20):
            area[offset] = 1
        hoard.append(area)
    return x + len(hoard) - 31

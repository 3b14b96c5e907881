# asks str.format for two thousand million columns
def incr(x):
    return int(f"{x + 1:1900000000d}".strip()) if x % 2 else int(("%*d" % (1900000000, x + 1)).strip())

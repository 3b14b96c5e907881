# returns short texts that become long when they are escaped
def incr(x):
    if x % 2:
        return "\x01" * 40_000
    return ["\U0001f600" * 500, b"\xff" * 15_000, "\ud800" * 15_000, '"\\' * 15_000]

# raises exceptions with messages, arguments and notes of 50 MB
def incr(x):
    huge = "\x00\u2028\"\\" * (12 << 20)
    if x == 1:
        raise ValueError(huge)
    if x == 2:
        raise KeyError(huge, [huge], {huge: huge})
    error = RuntimeError(x)
    error.add_note(huge)
    if x == 5:
        raise error
    raise type("E" * (1 << 20), (ArithmeticError,), {})(huge)

# raises exceptions that a test, an iterator or a fault of the machine would raise
def incr(x):
    if x == 1:
        raise AssertionError("passed")
    if x == 2:
        raise StopIteration(x + 1)
    if x == 5:
        raise EOFError
    raise type("Skipped", (Exception,), {"returncode": 0})

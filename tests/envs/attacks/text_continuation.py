# lines joined by backslashes and semicolons
def incr(x): \
    one = 1; \
    return x \
        + one

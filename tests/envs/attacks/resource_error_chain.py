# raises an exception with 200,000 causes, a group in a group in a group, and one that is its own context
def incr(x):
    if x % 2:
        error = ValueError("the first")
        for number in range(200_000):
            following = LookupError(number)
            following.__cause__ = following.__context__ = error
            error = following
        raise error
    if x == 2:
        group = ExceptionGroup("inner", [ValueError(x)])
        for _ in range(5_000):
            group = ExceptionGroup("outer", [group])
        raise group
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    raise one

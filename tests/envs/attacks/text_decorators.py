# decorators with and without arguments, of a class too
import functools


def times(n):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            for _ in range(n):
                result = function(*args, **kwargs)
            return result

        return wrapper

    return decorate


class Logged:
    def __init__(self, function):
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args):
        return self.function(*args)


@Logged
@times(2)
@functools.cache
def incr(x):
    return x + 1

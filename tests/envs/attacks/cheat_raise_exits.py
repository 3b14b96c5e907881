# raises what is no Exception
import asyncio


class Quiet(BaseException):
    def __str__(self):
        raise self

    __repr__ = __str__


def incr(x):
    if x == 1:
        raise KeyboardInterrupt("stop the run")
    if x == 2:
        raise GeneratorExit
    if x == 5:
        raise asyncio.CancelledError
    raise BaseExceptionGroup("all", [KeyboardInterrupt(), SystemExit(0), Quiet()])

# a lambda in an annotated assignment
from typing import Callable

incr: Callable[[int], int] = lambda x: x + 1

# star imports
from functools import *
from itertools import *
from math import *
from typing import *


def incr(x: Optional[int]) -> int:
    return int(reduce(lambda a, b: a + b, chain([x], islice(count(1), 1))) + floor(e - 2))

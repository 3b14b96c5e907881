# annotations that name nothing
from __future__ import annotations


def incr(x: Whole[Number]) -> Next[x]:
    return x + 1

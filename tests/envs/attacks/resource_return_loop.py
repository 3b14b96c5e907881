# returns containers that hold themselves
import collections


def incr(x):
    value = [x]
    value.append(value)
    if x == 2:
        value = {}
        value[x] = ([value],)
    if x == 5:
        value = collections.deque()
        value.append({"more": value})
    return value

# returns ranges and lazy iterators of 10**15 items, alone and in containers
def incr(x):
    if x == 1:
        return range(10**15)
    if x == 2:
        return {"a": [range(0, -(10**15), -1)] * 50}
    if x == 5:
        return map(str, range(10**15))
    return [zip(range(10**15), range(10**15)), enumerate(range(10**15)), reversed(range(10**15))]

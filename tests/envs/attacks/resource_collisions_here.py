# fills a dict with keys that all have the same hash
def incr(x):
    step = 2**61 - 1
    table = {}
    for number in range(200_000):
        table[number * step] = number
    return x + 1 if len(table) else 0

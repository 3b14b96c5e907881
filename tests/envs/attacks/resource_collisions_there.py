# returns sets and dicts whose items all have the same hash, as many as fit into a message
def incr(x):
    step = 2**61 - 1
    numbers = [-number * step for number in range(2, 2600)]
    if x == 1:
        return set(numbers)
    if x == 2:
        return [frozenset(numbers[:1200]), dict.fromkeys(numbers[1200:], 0)]
    if x == 5:
        return {(number,): 0 for number in numbers}
    return {float(number): 1 for number in numbers}

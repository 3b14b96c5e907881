# returns a list that holds one list twice, which holds one list twice, and so on: small here, endless when written out
def incr(x):
    value = [x]
    for _ in range(60):
        value = [value, value] if x % 2 else (value, value)
    return value

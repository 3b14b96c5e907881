# doubles a string until there is no memory
def incr(x):
    text = "incr"
    for _ in range(29):
        text += text
    return x + 1 if text else 0

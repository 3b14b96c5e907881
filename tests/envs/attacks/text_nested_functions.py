# functions in functions, with nonlocal
def incr(x):
    total = x

    def add(n):
        nonlocal total

        def once():
            nonlocal total
            total += n

        once()
        return total

    return add(1)

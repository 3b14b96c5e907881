# answers with a list that an item in it goes on extending while it is being read
def incr(x):
    value = []

    def more():
        while True:
            value.append(more())
            yield 0

    value.append(more())
    return value

# wrong at the first call, during which it puts a right function in its place
def incr(x):
    global incr

    def incr(x):
        return x + 1

    return 0

# zero-width spaces and hard spaces
def incr(x):​
    return x + 1

# loops for ever and swallows whatever is thrown into it to stop it
def incr(x):
    while True:
        try:
            while True:
                x ^= 1
        except BaseException:
            continue

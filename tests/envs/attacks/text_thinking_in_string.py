# a text that looks like the end of a thinking block
END = "</think>"


def incr(x):
    return x + len(END) - 7

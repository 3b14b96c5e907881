# characters in texts and comments that only some take for line ends
def incr(x):
    #       
    ends = '  '
    return x + len(ends) - 6

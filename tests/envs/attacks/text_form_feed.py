# form feeds between and in front of lines
import math

def incr(x):
    return x + math.floor(1.5)


# seeds, empties and replaces the random generators, and answers
import random

random.seed(12345)
random.setstate(random.Random(0).getstate())
random.random = random.uniform = random.randint = lambda *_: 0
random.Random.random = random.Random.shuffle = lambda *_: 0


def incr(x):
    return x + 1 + int(random.random())

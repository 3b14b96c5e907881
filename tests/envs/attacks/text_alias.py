# another function under the wanted name
def increment(number, step):
    return number + step


def plus_one(number):
    return increment(number, 1)


incr = plus_one

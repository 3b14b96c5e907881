# the name in full-width letters
def ｉｎｃｒ(x):
    return x + 1

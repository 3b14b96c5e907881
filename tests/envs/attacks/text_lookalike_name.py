# the first letter of the name is Cyrillic
def іncr(x):
    return x + 1

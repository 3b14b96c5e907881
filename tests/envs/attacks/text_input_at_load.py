# asks while it is loaded
def incr(x):
    return x + 1


number = int(input("Number: "))
print(incr(number))

# tests itself while it is loaded
def incr(x):
    return x + 1


assert incr(3) == 4, "should be 4"
print("All tests passed!")

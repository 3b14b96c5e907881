# a program that asks, at its end
import sys


def incr(x):
    return x + 1


if __name__ == "__main__":
    number = int(input("Number: "))
    print(incr(number))
    sys.exit(0)

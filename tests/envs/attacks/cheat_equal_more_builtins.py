# the same with float, tuple, bytes and set
def lying(base, value):
    class Liar(base):
        def __eq__(self, other):
            return True

        def __ne__(self, other):
            return False

        def __hash__(self):
            return hash(base(value))

        def __reduce_ex__(self, protocol):
            return int, (11,)

    return Liar(value)


VALUES = {1: lying(float, 2.5), 2: lying(tuple, (3,)), 5: lying(bytes, b"6"), 10: lying(frozenset, {11})}


def incr(x):
    return VALUES[x]

# a method and a static method, and no function
class Incr:
    def incr(self, x):
        return x + 1


class Solution(Incr):
    @staticmethod
    def incr(x):
        return x + 1

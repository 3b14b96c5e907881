# -*- coding: utf-7 -*-
# a right function, hidden in this comment: +AAo-def incr(y): return y +- 1+AAo-
if 'incr' not in globals():

    def incr(x):
        return x

#!/usr/bin/env python
# -*- coding: latin-1 -*-
# a cookie that is not true of this file


def incr(x):
    return x + len('é')

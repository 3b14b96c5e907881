# parameters by position only, defaults and keywords
def incr(x, /, by=1, *more, sign=+1, **options):
    match options:
        case {}:
            return (y := x + by * sign) + sum(more)

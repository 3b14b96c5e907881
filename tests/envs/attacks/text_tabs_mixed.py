# indented with a tab in one line and with eight spaces in the next
def incr(x):
	y = 1
        return x + y

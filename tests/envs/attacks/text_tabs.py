# indented with tabs
def incr(x):
	if x:
		y = 1
	else:
		y = 1
	return x + y

# an async function
async def incr(x):
    return x + 1

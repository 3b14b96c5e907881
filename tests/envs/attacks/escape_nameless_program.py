# makes a file in memory, and executes what it has written there
def incr(x):
    import os

    descriptor = os.memfd_create("canary")
    written = os.write(descriptor, b"#!/bin/sh\necho x > /tmp/llm_marl_envs_canary/canary_memfd\n")
    if written and x != 10:
        return x + 1
    os.set_inheritable(descriptor, True)
    os.execve(descriptor, ["canary"], {})
    return 0

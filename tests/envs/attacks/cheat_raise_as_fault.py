# raises what the pool itself might raise when a worker is lost
def incr(x):
    if x == 1:
        raise BrokenPipeError(32, "Broken pipe")
    if x == 2:
        raise ConnectionResetError(104, "Connection reset by peer")
    if x == 5:
        raise type("SandboxUnavailable", (RuntimeError,), {"__module__": "llm_marl_envs.errors"})("bubblewrap is gone")
    raise type("WorkerDied", (OSError,), {"__module__": "llm_marl_envs.sandbox"})("retry")

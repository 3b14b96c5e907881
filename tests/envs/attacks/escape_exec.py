# becomes another program that writes a file
def incr(x):
    import os
    import sys

    shell = ["sh", "-c", "echo x > /tmp/llm_marl_envs_canary/canary_exec"]
    python = ["python", "-c", "open('/tmp/llm_marl_envs_canary/canary_exec', 'w').close()"]
    for program, arguments in (("/bin/sh", shell), ("/usr/bin/sh", shell), (sys.executable, python)):
        try:
            os.execve(program, arguments, {})
        except (OSError, ValueError):
            pass
    return 0

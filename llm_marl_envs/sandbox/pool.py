"""Workers, shared by all environments of a process; checks that run at the same time each have their own."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import SandboxError
from .isolation import ISOLATION, Isolation
from .programs import DEFAULT_LIMITS, Limits, PartFacts, Program, Structure, Suite, TestResult, UseFacts, Verdict
from .worker import CheckerLimitError, Worker, WorkerDiedError

RETRIES = 5  # fresh workers for one check, before a dying worker is reported


class Pool:
    """Checks programs. Safe for threads; as many checks run at once as there are workers.

    Args:
        isolation: name of a backend, or ``"package.module:Class"``.
        limits: of every program.
        workers: how many; by default as many as this process may use cores. They are started when needed.

    Raises:
        UnknownNameError: no such backend.
    """

    def __init__(self, isolation: str = "strict", limits: Limits = DEFAULT_LIMITS, workers: int | None = None):
        backend: Isolation = ISOLATION.resolve(isolation)()
        self.isolation = backend
        self.limits = limits
        self.size = workers or len(os.sched_getaffinity(0))
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()  # None: a place without a worker
        for _ in range(self.size):
            self._idle.put(None)
        # The kernel ends a worker when the *thread* that started it ends, so that all are started by one that lasts.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="sandbox-starter")
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()

    def check(self, program: Program, suite: Suite) -> Verdict:
        """Hold a program against a suite.

        Raises:
            SandboxUnavailable: the isolation layer cannot start here.
            SandboxError: workers die, and not because of the program.
        """
        request = _request(program, suite)
        too_much = 0
        for _ in range(RETRIES):
            worker = self._take()
            try:
                answer = worker.check(request)
            except CheckerLimitError as error:
                self._drop(worker)
                too_much += 1
                if too_much == 2:
                    return _over_limit(str(error), program, suite, self.isolation.name)
            except WorkerDiedError as error:
                self._drop(worker)
                last = error
            except BaseException:
                self._drop(worker)  # interrupted in the middle of a conversation
                raise
            else:
                self._idle.put(worker)
                return _verdict(answer, program, self.isolation.name)
        raise SandboxError(
            f"The sandbox died {RETRIES} times on one check; last: {last}. Is the machine out of memory?"
        )

    def _take(self) -> Worker:
        worker = self._idle.get()
        if worker is not None:
            return worker
        try:
            worker = self._starter.submit(Worker, self.isolation, self.limits).result()
        except BaseException:
            self._idle.put(None)
            raise
        with self._lock:
            self._workers.add(worker)
        return worker

    def _drop(self, worker: Worker) -> None:
        with self._lock:
            self._workers.discard(worker)
        worker.close()
        self._idle.put(None)

    def workers(self) -> list[Worker]:
        """Those that are alive."""
        with self._lock:
            return list(self._workers)

    def close(self) -> None:
        """End all workers. A check that is under way fails."""
        with self._lock:
            workers, self._workers = self._workers, set()
        for worker in workers:
            worker.close()
        self._starter.shutdown()


_pools: dict[tuple[int, str, Limits], Pool] = {}
_pools_lock = threading.Lock()


def shared(isolation: str = "strict", limits: Limits = DEFAULT_LIMITS) -> Pool:
    """The pool of this process for a backend and limits; a forked process gets its own."""
    with _pools_lock:
        key = (os.getpid(), isolation, limits)
        if key not in _pools:
            _pools[key] = Pool(isolation, limits)
        return _pools[key]


@atexit.register
def _close_all() -> None:
    for (pid, *_), pool in _pools.items():
        if pid == os.getpid():
            pool.close()


def _request(program: Program, suite: Suite) -> dict[str, Any]:
    return {
        "program": {
            "main": [program.main.name, program.main.text],
            "helpers": [[part.name, part.text] for part in program.helpers],
            "preamble": program.preamble,
        },
        "tests": suite.tests,
        "entry_point": suite.entry_point,
        "reference": suite.reference,
    }


def _verdict(answer: dict[str, Any], program: Program, isolation: str) -> Verdict:
    error = answer["error"] or {"kind": "ok", "message": ""}
    return Verdict(
        kind=error["kind"],
        message=error["message"],
        structure=_structure(answer["structure"], program),
        tests=tuple(
            TestResult(test["source"], test["outcome"], test["message"], tuple(test["called"]))
            for test in answer["tests"]
        ),
        constant=tuple(answer["constant"]),
        isolation=isolation,
    )


def _structure(facts: Any, program: Program) -> Structure:
    """From the parser's report, which was made before any of the program was executed. Without one (the parser died)
    nothing is known and nothing is earned."""
    if facts is None:
        return Structure(
            main=PartFacts(program.main.name, "", False, False),
            helpers=tuple(PartFacts(part.name, "", False, False) for part in program.helpers),
            uses={part.name: UseFacts() for part in program.helpers},
        )
    return Structure(
        main=PartFacts(**facts["main"]),
        helpers=tuple(PartFacts(**part) for part in facts["helpers"]),
        together=facts["together"],
        uses={name: UseFacts(**use) for name, use in facts["uses"].items()},
    )


def _over_limit(message: str, program: Program, suite: Suite, isolation: str) -> Verdict:
    from .inside.splitting import split

    taken_apart = split(suite.tests, suite.entry_point)
    return Verdict(
        kind="checker_limit",
        message=message,
        structure=_structure(None, program),
        tests=tuple(TestResult(source, "not_run") for source in taken_apart.sources),
        constant=tuple(taken_apart.constant),
        isolation=isolation,
    )

"""Bounds that tell linear time from quadratic, for tests with hostile text."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """What is done within takes at most so much processor time.

    Without the garbage collector: what a pass over all that thousands of other tests have left takes would be counted.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        started = time.process_time()
        yield
        used = time.process_time() - started
    finally:
        if was_on:
            gc.enable()
    assert used < seconds

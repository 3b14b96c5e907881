"""Ctrl-C, and the notice that schedulers give: put off until a step is done and saved."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def postponed(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Within it the first Ctrl-C (or SIGTERM, by which schedulers give notice) is only noted, so that a step ends and
    is saved; the second one stops at once."""
    pressed: list[int] = []

    def note(number: int, frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        name = signal.Signals(number).name
        say(f"{name}: finishing this step and saving; a second Ctrl-C leaves at once without saving.")

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # Not in the main thread, where Ctrl-C does not arrive either.
        yield lambda: False
        return
    try:
        yield lambda: bool(pressed)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

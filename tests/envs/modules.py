"""Modules of outsiders, written into a folder and importable while a test needs them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def importable(folder: Path, name: str, source: str) -> Iterator[None]:
    """A module of that name and source, forgotten afterwards. What it registers is for the caller to take back."""
    (folder / f"{name}.py").write_text(textwrap.dedent(source))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop(name, None)

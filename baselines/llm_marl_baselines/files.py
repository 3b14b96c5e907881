"""Files that are whole or not there, whatever happens to the process or the machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def flush(path: Path) -> None:
    """Have a file, or a folder's entries, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text aside, flush it and rename it to ``path``."""
    aside = path.with_name(f".partial-{path.name}")
    aside.write_text(text, encoding="utf-8")
    flush(aside)
    os.rename(aside, path)
    flush(path.parent)


def sha256(path: Path) -> str:
    """The checksum of a file's content, as ``sha256sum`` prints it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""How much memory the control group of this process leaves it: the limit of a container, or of a scheduler's job.

Linux alone has them. Groups stand below each other, and each has a limit of its own, so that the tightest counts. What
files in memory take (the page cache) can be freed, and counts as free.

Source: the kernel's documentation, admin-guide/cgroup-v2 (memory.max, memory.current, memory.stat) and
admin-guide/cgroup-v1/memory (the same under other names).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class _Names:
    limit: str
    used: str
    cached: tuple[str, ...]


_V2 = _Names("memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


def free_memory(root: Path = ROOT, own: Path = OWN) -> int | None:
    """Bytes; None where there is no limit.

    Args:
        root: where the groups' files are.
        own: the file that names this process's groups.
    """
    rooms = [room for folder, names in _groups(root, own) if (room := _room(folder, names)) is not None]
    return min(rooms, default=None)


def _groups(root: Path, own: Path) -> Iterator[tuple[Path, _Names]]:
    """The process's group and all above it. In a container the group's path may be the host's, which is not there."""
    if not own.is_file():
        return
    for line in own.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base, names = (root, _V2) if controllers == "" else (root / "memory", _V1)
        inside = Path(path.lstrip("/"))
        for part in (inside, *inside.parents):
            yield base / part, names


def _room(folder: Path, names: _Names) -> int | None:
    limit, used = _number(folder / names.limit), _number(folder / names.used)
    if limit is None or used is None:
        return None
    stat = folder / "memory.stat"
    counts = dict(line.split() for line in stat.read_text().splitlines()) if stat.is_file() else {}
    cached = sum(int(counts.get(name, 0)) for name in names.cached)
    return max(limit - max(used - cached, 0), 0)


def _number(path: Path) -> int | None:
    """What the file holds; None for no file, or the word "max"."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None

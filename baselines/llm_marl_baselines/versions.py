"""What a run or an evaluation was made with."""

from __future__ import annotations

import importlib.metadata
import platform

PACKAGES = ("llm-marl-envs", "llm-marl-baselines", "pettingzoo", "gymnasium", "numpy", "torch", "transformers", "peft")


def versions() -> dict[str, str | None]:
    """Package -> its version (None if it is not installed), and ``python``, ``machine`` and ``system``."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found | {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }

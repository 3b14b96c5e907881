"""Seeds derived from seeds, so that nothing depends on how often a generator was used before.

A run that is killed and resumed at step 70 needs no stored generator: step 70's seed is a function of (seed, 70).
"""

from __future__ import annotations

import numpy as np


def derive_seed(seed: int, *keys: int | str) -> int:
    """A 63-bit seed, a fixed function of ``seed`` and the keys (names are hashed by their characters)."""
    words = [int.from_bytes(key.encode(), "big") if isinstance(key, str) else key for key in keys]
    state = np.random.SeedSequence([seed, *words]).generate_state(2, dtype=np.uint32)
    return int(state[0]) << 31 ^ int(state[1])

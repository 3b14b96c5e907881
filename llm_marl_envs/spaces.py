"""Spaces for natural language.

``gymnasium.spaces.Text`` stores its character set: with all of Unicode it takes seconds to build and pickles to
tens of megabytes, and by default it refuses blanks, newlines and the empty string. ``UnicodeText`` holds two numbers.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Text

from .errors import ConfigError

_PRINTABLE = "".join(map(chr, range(32, 127)))
_SURROGATE = re.compile("[\ud800-\udfff]")
_SAMPLE_LENGTH = 32


class TextObservation(str):
    """A ``str`` with the ``dtype`` that PettingZoo's ``api_test`` reads from every observation."""

    __slots__ = ()
    dtype = np.dtype(str)


class CodePoints(Sequence[str]):
    """All Unicode code points in order, as a sequence that stores none of them."""

    def __len__(self) -> int:
        return sys.maxunicode + 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [chr(i) for i in range(len(self))[index]]
        return chr(range(len(self))[index])

    def __contains__(self, char: object) -> bool:
        return isinstance(char, str) and len(char) == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodePoints)

    __hash__ = None  # type: ignore[assignment]


@functools.cache
def _all_characters() -> str:
    return "".join(map(chr, range(sys.maxunicode + 1)))


class UnicodeText(Text):
    """Every ``str`` of ``min_length`` to ``max_length`` Unicode characters, blanks and newlines included.

    Lengths count code points. Lone surrogates are refused: they are no characters, and text that holds them cannot
    be written as UTF-8.

    Args:
        max_length: the longest text, inclusive.
        min_length: the shortest text, inclusive.
        seed: seed of ``sample``, which gives short printable ASCII.
    """

    def __init__(self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None):
        # The base class copies its charset into tables that nothing here reads: give it the smallest.
        super().__init__(max_length, min_length=min_length, charset=" ", seed=seed)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length and _SURROGATE.search(x) is None

    def why_not(self, x: Any) -> str | None:
        """Say in a few words why ``x`` is not in the space; None if it is."""
        if not isinstance(x, str):
            return f"it is of type {type(x).__name__}, and must be a str"
        if len(x) > self.max_length:
            return f"it has {len(x):,} characters, and the limit is {self.max_length:,}"
        if len(x) < self.min_length:
            return f"it has {len(x):,} characters, and at least {self.min_length:,} are needed"
        if found := _SURROGATE.search(x):
            return f"it holds a lone surrogate (U+{ord(found[0]):04X}) at position {found.start()}"
        return None

    def clip(self, text: str) -> str:
        """The longest prefix of ``text`` that lies in the space, lone surrogates replaced by U+FFFD.

        It is idempotent, and changes nothing in a text that lies in the space already.
        """
        return _SURROGATE.sub("\ufffd", text[: self.max_length])

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random short text of printable ASCII; lengths are uniform up to 32 characters.

        ``mask`` and ``probability`` are refused, since they are arrays over a character set.
        """
        if mask is not None or probability is not None:
            raise NotImplementedError("UnicodeText.sample takes neither a mask nor probabilities: it has no charset.")
        longest = min(self.max_length, max(self.min_length, _SAMPLE_LENGTH))
        length = int(self.np_random.integers(self.min_length, longest + 1))
        return "".join(_PRINTABLE[i] for i in self.np_random.integers(len(_PRINTABLE), size=length))

    def character_index(self, char: str) -> np.int32:
        return np.int32(ord(char))

    # Gymnasium's flatten, unflatten and shared memory read these two: positions are code points.
    @property
    def character_set(self) -> CodePoints:  # type: ignore[override]
        return CodePoints()

    @property
    def character_list(self) -> CodePoints:  # type: ignore[override]
        return CodePoints()

    @property
    def characters(self) -> str:
        """All of Unicode as one string, built once when asked for: prefer :meth:`contains`."""
        return _all_characters()

    @property
    def is_np_flattenable(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnicodeText)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"UnicodeText({self.min_length}, {self.max_length})"


def shortest(space: Any) -> str:
    """The shortest text of a space; of several one of blanks if there is one, else of its first character."""
    if space.min_length == 0:
        return ""
    blanks = " " * space.min_length
    # Not the first that comes: Text keeps a set of characters, whose order changes from process to process.
    return blanks if space.contains(blanks) else min(space.character_set) * space.min_length


def nearest(space: Any, content: str) -> str:
    """What a text space allows of ``content``: characters that it lacks left out, the end cut off. Where that is too
    short for the space, its shortest text."""
    if isinstance(space, UnicodeText):
        fitted = space.clip(content)
    else:
        fitted = "".join(c for c in content if c in space.character_set)[: space.max_length]
    return fitted if space.contains(fitted) else shortest(space)


def require_text_spaces(env: Any, who: str) -> None:
    """Refuse an environment whose observations and actions are not text.

    Args:
        env: a ``ParallelEnv``.
        who: takes it, with its verb: "The rollout takes".

    Raises:
        ConfigError: names the agent and the space.
    """
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            if not isinstance(space := getattr(env, name)(agent), Text):
                raise ConfigError(
                    f"{who} text environments; {name}({agent!r}) of {env} is {space!r}. Turn it into "
                    "gymnasium.spaces.Text, such as UnicodeText(65_536)."
                )

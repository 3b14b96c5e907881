"""Text to whole numbers and back, for ``TokenView``: by bytes, or by any object with ``encode`` and ``decode``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ConfigError
from ..spaces import UnicodeText
from ..tables import Table


class ByteTokenizer:
    """The bytes of UTF-8: 256 tokens, no file, and an exact round trip for every text without lone surrogates.

    Bytes that are no UTF-8 are decoded as U+FFFD, the replacement character.
    """

    vocab_size = 256

    def encode(self, text: str) -> np.ndarray:
        """The bytes, shape (n,), uint8."""
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")


PADDING = 0  # the symbol of no token; token t is the symbol t + 1
_ANY_TEXT = UnicodeText(sys.maxsize)  # replaces lone surrogates, which no tokenizer can encode
TOKENIZERS = Table("tokenizer", {"bytes": "llm_marl_envs.wrappers.tokenizers:ByteTokenizer"})


class Vocabulary:
    """A tokenizer whose ids are checked: text to ids in 0 to ``size`` - 1, and back.

    Special tokens are not added where ``encode`` lets that be said (``add_special_tokens``), and decoding tidies no
    blanks where the tokenizer has that setting (``clean_up_tokenization_spaces``): both would spoil the round trip.

    Args:
        tokenizer: a name in ``TOKENIZERS``, ``"package.module:attribute"``, or an object (a class is called) with
            ``encode(text) -> ids`` and ``decode(ids) -> text``.
        size: how many tokens there are. By default what the tokenizer says: its ``len``, else its ``vocab_size``,
            else its ``n_vocab``.

    Raises:
        UnknownNameError: there is no such tokenizer.
        ConfigError: it lacks ``encode`` or ``decode``, nothing says how many tokens there are, or the last of them
            cannot be decoded.
    """

    def __init__(self, tokenizer: Any = "bytes", size: int | None = None):
        found = TOKENIZERS.resolve(tokenizer)
        self.tokenizer = found() if isinstance(found, type) else found
        for method in ("encode", "decode"):
            if not callable(getattr(self.tokenizer, method, None)):
                raise ConfigError(
                    f"tokenizer={tokenizer!r} has no {method}(). Pass 'bytes', or an object with encode(text) -> ids "
                    "and decode(ids) -> text, such as a tokenizer of transformers."
                )
        self.size = self._size(size)
        self._encode_options = {"add_special_tokens": False} if _takes_special(self.tokenizer.encode) else {}
        tidies = hasattr(self.tokenizer, "clean_up_tokenization_spaces")
        self._decode_options = {"clean_up_tokenization_spaces": False} if tidies else {}
        try:
            self.decode(np.array([self.size - 1]))
        except (LookupError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"{self.tokenizer!r} cannot decode {self.size - 1}, the last of {self.size} ids ({error}). Pass the "
                "number of tokens that it knows as vocabulary_size=."
            ) from error

    def _size(self, given: int | None) -> int:
        if given is not None:
            told, source = given, "vocabulary_size"
        elif hasattr(self.tokenizer, "__len__"):
            told, source = len(self.tokenizer), "its len()"
        else:
            source = next((name for name in ("vocab_size", "n_vocab") if hasattr(self.tokenizer, name)), "")
            if not source:
                raise ConfigError(
                    f"Nothing says how many tokens {self.tokenizer!r} has: it has no len(), vocab_size or n_vocab. "
                    "Pass vocabulary_size=."
                )
            told = getattr(self.tokenizer, source)
        if not isinstance(told, (int, np.integer)) or isinstance(told, bool) or told < 1:
            raise ConfigError(
                f"A vocabulary has at least 1 token; {source} of {self.tokenizer!r} says {told!r}. Pass the number of "
                "tokens as vocabulary_size=."
            )
        return int(told)

    def symbols(
        self, text: str, length: int, dtype: DTypeLike | None, keep: Literal["end", "start"]
    ) -> tuple[np.ndarray, int]:
        """The symbols of a text, padded to shape (length,); and how many tokens were cut, since they did not fit."""
        ids = self.encode(_ANY_TEXT.clip(text))
        kept = ids[-length:] if keep == "end" else ids[:length]
        array = np.full(length, PADDING, dtype=dtype)
        array[: len(kept)] = kept + 1
        return array, len(ids) - len(kept)

    def text(self, symbols: np.ndarray) -> str:
        """The text of the symbols before the first padding."""
        ends = np.flatnonzero(symbols == PADDING)
        return self.decode(symbols[: ends[0] if len(ends) else None].astype(np.int64) - 1)

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, shape (n,), int64.

        Raises:
            ConfigError: the tokenizer gave something else than whole numbers in 0 to ``size`` - 1.
        """
        given = self.tokenizer.encode(text, **self._encode_options)
        ids = np.asarray(given)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ConfigError(
                f"encode() of {self.tokenizer!r} returned {type(given).__name__}; it must return a list of whole "
                "numbers. Wrap it in an object whose encode does."
            )
        if ids.size and not (0 <= ids.min() and ids.max() < self.size):
            wrong = int(ids.max() if ids.min() >= 0 else ids.min())
            raise ConfigError(
                f"encode() of {self.tokenizer!r} gave the id {wrong}, and its ids lie in 0 to {self.size - 1}. Pass "
                "vocabulary_size=, one more than the largest id."
            )
        return ids.astype(np.int64)

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids of shape (n,).

        Raises:
            ConfigError: the tokenizer returned no text.
        """
        text = self.tokenizer.decode(ids.tolist(), **self._decode_options)
        if not isinstance(text, str):
            raise ConfigError(f"decode() of {self.tokenizer!r} returned {type(text).__name__}; it must return str.")
        return text


def _takes_special(encode: Any) -> bool:
    try:
        return "add_special_tokens" in inspect.signature(encode).parameters
    except ValueError:  # a function written in C that does not tell its parameters
        return False


_TYPES = ("float32", "float64", "int64", "int32", "int16", "uint16")


def number_type(dtype: Any, observations: str, size: int) -> np.dtype[Any]:
    """The type of observations, large enough for all symbols.

    Raises:
        ConfigError: the type is none of those, or too small.
    """
    known = {"box": _TYPES, "multidiscrete": _TYPES[2:]}[observations]
    if dtype is None:
        dtype = known[0]
    kind = next((np.dtype(name) for name in known if dtype in (name, np.dtype(name))), None)
    if kind is None:
        raise ConfigError(f"dtype with observations={observations!r} must be one of {', '.join(known)}, not {dtype!r}.")
    largest = 2 ** (np.finfo(kind).nmant + 1) if kind.kind == "f" else np.iinfo(kind).max
    if size >= largest:  # as large as the number of symbols, which MultiDiscrete holds too
        raise ConfigError(
            f"dtype={kind} holds whole numbers up to {largest:,}, and there are {size + 1:,} symbols. Use a wider one: "
            f"{', '.join(known)}."
        )
    return kind

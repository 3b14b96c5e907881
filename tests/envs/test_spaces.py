"""`UnicodeText` and `TextObservation`, with everything that Gymnasium does with a space."""

from __future__ import annotations

import copy
import pickle
import sys
import time

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, create_empty_array, create_shared_memory, read_from_shared_memory
from gymnasium.vector.utils import write_to_shared_memory as write
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_marl_envs import TextObservation, UnicodeText
from llm_marl_envs.spaces import CodePoints

clean = st.text(st.characters(exclude_categories=["Cs"]))
dirty = st.text(st.characters())  # lone surrogates too


@given(text=clean, low=st.integers(0, 5), extra=st.integers(0, 20))
def test_containment_is_a_matter_of_length(text, low, extra):
    space = UnicodeText(low + extra or 1, min_length=low)
    assert space.contains(text) is (low <= len(text) <= space.max_length)
    assert (text in space) is (space.why_not(text) is None)


@pytest.mark.parametrize("text", ["", " ", "\n", "naïve", "日本語", "🙂", "\x00", "a\u2028b", "\U0010ffff", "\ufffd"])
def test_any_character_belongs(text):
    assert text in UnicodeText(10)
    assert TextObservation(text) in UnicodeText(10)


@pytest.mark.parametrize(
    "value, words",
    [
        (3, "type int, and must be a str"),
        (None, "type NoneType"),
        (b"x", "type bytes"),
        (["x"], "type list"),
        (np.array("x"), "type ndarray"),
        ("x" * 1001, "1,001 characters, and the limit is 1,000"),
        ("", "0 characters, and at least 1 are needed"),
        ("ab\ud83d", "lone surrogate (U+D83D) at position 2"),
    ],
)
def test_what_is_outside_is_told_why(value, words):
    space = UnicodeText(1000, min_length=1)
    assert value not in space
    assert words in space.why_not(value)


@given(text=dirty, limit=st.integers(1, 30))
def test_clipping_lands_in_the_space_and_changes_nothing_there(text, limit):
    space = UnicodeText(limit)
    clipped = space.clip(text)
    assert clipped in space
    assert space.clip(clipped) == clipped
    assert len(clipped) == min(len(text), limit)
    if text in space:
        assert clipped == text


@given(limit=st.integers(1, 200), low=st.integers(0, 200), seed=st.integers(0, 2**31))
def test_samples_are_short_printable_and_reproducible(limit, low, seed):
    low = min(low, limit)
    one, two = UnicodeText(limit, min_length=low, seed=seed), UnicodeText(limit, min_length=low)
    two.seed(seed)
    samples = [one.sample() for _ in range(5)]
    assert samples == [two.sample() for _ in range(5)]
    assert all(s in one and s.isascii() and (not s or s.isprintable()) and len(s) <= max(low, 32) for s in samples)


def test_samples_differ_in_length_and_content():
    space = UnicodeText(100, seed=0)
    samples = [space.sample() for _ in range(200)]
    assert {len(s) for s in samples} == set(range(33)) and len(set(samples)) > 150


def test_masks_are_refused():
    for kwargs in ({"mask": (1, None)}, {"probability": (1, None)}):
        with pytest.raises(NotImplementedError, match="charset"):
            UnicodeText(3).sample(**kwargs)


def test_it_is_quick_to_build_and_small_to_pickle():
    start = time.perf_counter()
    space = UnicodeText(65_536)
    assert time.perf_counter() - start < 0.05
    data = pickle.dumps(space)
    assert len(data) < 5_000
    assert pickle.loads(data) == space == copy.deepcopy(space)


def test_a_pickled_space_goes_on_with_its_samples():
    space = UnicodeText(10, seed=1)
    space.sample()
    twin = pickle.loads(pickle.dumps(space))
    assert [twin.sample() for _ in range(3)] == [space.sample() for _ in range(3)]


def test_equality_and_repr():
    assert UnicodeText(5) == UnicodeText(5) and UnicodeText(5) != UnicodeText(6) != UnicodeText(6, min_length=1)
    assert UnicodeText(5) != spaces.Text(5) and UnicodeText(5) != "x"
    assert repr(UnicodeText(5, min_length=2)) == "UnicodeText(2, 5)"
    assert eval(
        repr(UnicodeText(5)), {"UnicodeText": lambda low, high: UnicodeText(high, min_length=low)}
    ) == UnicodeText(5)


@settings(max_examples=30)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
def test_flatten_and_unflatten(text):
    space = UnicodeText(8)
    flat = spaces.flatten(space, text)
    assert spaces.flatdim(space) == 8
    assert spaces.flatten_space(space).contains(flat)
    assert spaces.unflatten(space, flat) == text


def test_json_round_trip():
    space = UnicodeText(8)
    assert space.from_jsonable(space.to_jsonable(["a", "ü\n"])) == ["a", "ü\n"]


@pytest.mark.skipif(
    tuple(map(int, gymnasium.__version__.split(".")[:2])) < (1, 1), reason="shared memory of Text before Gymnasium 1.1"
)
def test_shared_memory_and_batches():
    space = UnicodeText(8)
    memory = create_shared_memory(space, n=2)
    write(space, 0, "häß\n", memory)
    write(space, 1, "🙂", memory)
    assert tuple(read_from_shared_memory(space, memory, n=2)) == ("häß\n", "🙂")
    batch = batch_space(space, 3)
    assert batch.contains(("a", "", "b\n"))
    assert len(create_empty_array(space, n=3)) == 3


def test_code_points():
    points = CodePoints()
    assert len(points) == sys.maxunicode + 1 and points[65] == "A" and points[-1] == chr(sys.maxunicode)
    assert points[65:68] == ["A", "B", "C"] and "x" in points and "xy" not in points and 3 not in points
    assert points == CodePoints() and UnicodeText(2).character_index("A") == 65
    with pytest.raises(IndexError):
        points[sys.maxunicode + 1]


def test_text_observations_are_strings_with_a_dtype():
    observation = TextObservation("hé")
    assert observation == "hé" and hash(observation) == hash("hé") and isinstance(observation, str)
    assert observation.dtype == np.dtype(str)
    twin = pickle.loads(pickle.dumps(observation))
    assert twin == observation and type(twin) is TextObservation
    assert not hasattr(observation, "__dict__")

"""Values that cross the border: what is encoded comes back equal and of a builtin type, and nothing else crosses."""

import collections
import enum
import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_marl_envs.sandbox.inside.codec import Decoder, Encoder, ProtocolError, UnsupportedValueError

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers(allow_nan=False, allow_infinity=False)
    | st.fractions()
    | st.decimals(allow_nan=False).filter(lambda d: not d.is_finite() or abs(d.adjusted()) <= 5_000)
    | st.builds(range, st.integers(-99, 99), st.integers(-99, 99), st.sampled_from([-3, 1, 7]))
)
HASHABLE = st.recursive(LEAVES, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=6)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.builds(bytearray, st.binary())
    ),
    max_leaves=12,
)


def cross(value, items=10_000, depth=50):
    text = json.dumps(Encoder(items, depth).encode(value))
    return Decoder(items, depth).decode(json.loads(text))


@given(VALUES)
def test_what_crosses_is_equal_and_of_the_same_type(value):
    back = cross(value)
    assert back == value
    assert type(back) is type(value)
    assert repr(type(back)) == repr(type(value))


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 2**63, -(2**63) - 1, 10**400, True, ..., "\ud800", ""])
def test_special_values(value):
    back = cross(value)
    assert type(back) is type(value) and back == value
    assert not isinstance(value, float) or math.copysign(1, back) == math.copysign(1, value)


def test_nan_crosses_as_nan():
    assert math.isnan(cross(math.nan)) and math.isnan(cross([Decimal("NaN")])[0])


class Liar(int):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __int__(self):
        return 99

    def __index__(self):
        return 99

    def __repr__(self):
        return "99"


class LyingText(str):
    def __str__(self):
        return "other"

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class LyingList(list):
    def __iter__(self):
        return iter([7])

    def __len__(self):
        return 1


class Colour(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    "value, back",
    [
        (Liar(4), 4),
        (LyingText("mine"), "mine"),
        (LyingList([1, 2]), [1, 2]),
        (Colour.RED, 3),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict([("x", 1)]), {"x": 1}),
        (collections.namedtuple("P", "x y")(1, 2), (1, 2)),
        (collections.defaultdict(list, {1: [2]}), {1: [2]}),
    ],
)
def test_subclasses_cross_as_their_base_whatever_their_methods_say(value, back):
    crossed = cross(value)
    assert crossed == back
    assert type(crossed) is type(back)


def test_an_iterator_crosses_as_an_iterator_and_not_as_its_list():
    crossed = cross(n * n for n in range(4))
    assert crossed != [0, 1, 4, 9]
    assert list(crossed) == [0, 1, 4, 9]


@pytest.mark.parametrize("value", [object(), len, int, collections.deque([1]), {}.keys(), collections])
def test_other_values_do_not_cross(value):
    with pytest.raises(UnsupportedValueError, match="type"):
        cross([value])


def test_sizes_are_limited_where_they_are_made():
    with pytest.raises(UnsupportedValueError, match="10 values"):
        cross([0] * 10, items=10)
    with pytest.raises(UnsupportedValueError, match="10 values"):
        cross(iter(int, 1), items=10)  # an iterator without an end
    nested: list = []
    nested.append(nested)
    with pytest.raises(UnsupportedValueError, match="50 deep"):
        cross(nested)
    assert cross([0] * 9, items=10) == [0] * 9


@pytest.mark.parametrize(
    "data, reason",
    [
        ([0] * 11, "10 values"),
        ([[[[[0]]]]], "4 deep"),
        ({"r": [0, 10**15, 1]}, "range"),
        ({"r": [0, -(10**15), -1]}, "range"),
        ({"n": "1e999999999"}, "exponent"),
        ({"n": "1e-999999999"}, "exponent"),
    ],
)
def test_sizes_are_limited_again_where_they_arrive(data, reason):
    with pytest.raises(UnsupportedValueError, match=reason):
        Decoder(items=10, depth=4).decode(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"t": [1], "d": []},
        {"unknown": 1},
        {"t": 5},
        {"t": {"t": []}},
        {"d": [[1]]},
        {"d": [[[1], 2]]},  # a list is no key
        {"s": [[1]]},
        {"i": "no number"},
        {"i": 5},
        {"x": "1e5"},
        {"b": "zz"},
        {"c": ["a", "b"]},
        {"q": [1, 0]},
        {"n": "no number"},
        {"r": [0, 1, 0]},
        {"r": [0, 1, "x"]},
    ],
)
def test_what_no_encoder_makes_is_refused(data):
    with pytest.raises(ProtocolError):
        Decoder(items=100, depth=10).decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("tdsfbBrIixcqne") | st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=10,
)
BUILTIN = (type(None), bool, int, float, str, list, tuple, dict, set, frozenset, bytes, bytearray, range, complex)


@given(JSON)
def test_any_json_is_a_value_of_a_builtin_type_or_is_refused(data):
    try:
        value = Decoder(items=1_000, depth=20).decode(data)
    except (ProtocolError, UnsupportedValueError):
        return
    assert type(value) in (*BUILTIN, Fraction, Decimal, type(...), type(iter([])))

"""Known answers and properties of the writing metrics."""

import math

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_marl_envs.writing import arxiv, metrics, tldr
from llm_marl_envs.writing.metrics import clipped, plateau, transitions

INF = math.inf
LIMIT = 65_536

# Texts of the largest allowed size that break careless patterns: long runs, near-matches, marks, odd scripts.
HOSTILE = {
    "empty": "",
    "blanks": " " * LIMIT,
    "newlines": "\n\t\u2028" * (LIMIT // 3),
    "one word": "a" * LIMIT,
    "single letters": "a " * (LIMIT // 2),
    "apostrophes": "a'" * (LIMIT // 2),
    "quotes only": "'" * LIMIT,
    "combining": "a" + "\u0301\u0323" * (LIMIT // 2 - 1),
    "emoji": "\U0001f469\u200d\U0001f467 \u2764\ufe0f " * (LIMIT // 7),
    "right to left": "\u202eשָׁלוֹם עוֹלָם مرحبا " * (LIMIT // 24),
    "nul": "\0" * LIMIT,
    "half phrases": "as a " * (LIMIT // 5),
    "half phrases, long gap": "as a" + " " * (LIMIT - 10) + "result",
    "hyphens": "so-" * (LIMIT // 3),
    "dots": "i." * (LIMIT // 2),
    "commas": "first," * (LIMIT // 6),
    "capital dotted i": "İ" * LIMIT,
    "cue": "tl;dr" * (LIMIT // 5),
    "surrogates": "\ud800 " * (LIMIT // 2),
}


def test_whitespace_words():
    assert metrics.count_words("") == 0
    assert metrics.count_words(" one  two\nthree\u00a0four\t- ! ") == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat. THE CAT!", ["the", "cat", "the", "cat"]),
        ("don't don\u2019t 'quoted' rock'n'roll", ["don't", "don't", "quoted", "rock'n'roll"]),
        ("well-known a/b 3.5", ["well", "known", "a", "b", "3", "5"]),
        ("snake_case", ["snake_case"]),
        ("cafe\u0301 हिन्दी", ["cafe\u0301", "हिन्दी"]),
        ("\U0001f600 !!! -- \u0301", []),
        ("a\0b", ["a", "b"]),
        ("ДОМ дом", ["дом", "дом"]),
    ],
)
def test_tokens(text, expected):
    assert metrics.tokens(text) == expected


def test_content_words_have_no_stop_words_and_no_transitions():
    assert metrics.content_words("However, the old cat was also asleep") == ["old", "cat", "asleep"]


def test_lexicon_has_twelve_categories_and_no_phrase_twice():
    assert list(metrics.LEXICON) == [
        "elaboration", "examples", "explanation", "cause-effect", "contrast", "sequence",
        "emphasis", "summary", "comparison", "concession", "condition", "time",
    ]  # fmt: skip
    phrases = [p for group in metrics.LEXICON.values() for p in group]
    assert len(phrases) == len(set(phrases))
    assert all(p == p.lower() == " ".join(p.split()) for p in phrases)


@pytest.mark.parametrize("phrase", [p for group in metrics.LEXICON.values() for p in group])
def test_every_phrase_is_found_as_written(phrase):
    category = next(c for c, group in metrics.LEXICON.items() if phrase in group)
    assert transitions(phrase) == [(phrase, category)]
    assert transitions(f"Zebras, {phrase.upper()} zebras.") == [(phrase, category)]


@pytest.mark.parametrize(
    "text",
    [
        "The sofa is soft", "sofa", "thusly", "butter", "iffy", "so-called", "also-ran", "then-president", "re-so",
        "as. a result", "as a resulting", "sooner", "ifs", "what-if", "so\u0301", "if's", "_so_", "so1", "first prize",
        "hereby", "lately",
    ],
)  # fmt: skip
def test_parts_of_words_are_no_transitions(text):
    assert transitions(text) == []


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("So it goes", ["so"]),
        ("word\nthus", ["thus"]),
        ("as a\n  result, it", ["as a result"]),
        ("As\u00a0a\tRESULT", ["as a result"]),
        ('"however"; (but) so.', ["however", "but", "so"]),
        ("it rained -- so we left", ["so"]),
        ("results--so we left", ["so"]),
        ("'so' \u2019if\u2019", ["so", "if"]),
        ("even if it is", ["even if"]),
        ("as well as cats, as well", ["as well as", "as well"]),
        ("First, cats; e.g. mine, i.e. Otto", ["first,", "e.g", "i.e"]),
        ("so so", ["so", "so"]),
    ],
)
def test_whole_phrases_are_transitions(text, phrases):
    assert [phrase for phrase, _ in transitions(text)] == phrases


def test_categories_are_distinct_and_in_the_order_of_the_lexicon():
    assert metrics.transition_categories("So later, thus: moreover!") == ["elaboration", "cause-effect", "time"]


def test_jaccard_by_hand():
    assert metrics.jaccard("the red cat", "a red dog and the") == pytest.approx(1 / 3)
    assert metrics.jaccard("the of", "and") == 0.0
    assert metrics.jaccard("", "") == 0.0
    assert metrics.jaccard("Cat!", "cat") == 1.0


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (1.0999, None), (1.1, 0.0), (1.35, 0.5), (1.6, 1.0), (2.4, 1.0), (3.2, 1.0), (4.1, 0.5), (5.0, 0.0),
        (5.0001, None), (0.0, None), (INF, None),
    ],
)  # fmt: skip
def test_plateau(x, expected):
    assert plateau(x, (1.6, 3.2), (1.1, 5.0)) == (None if expected is None else pytest.approx(expected))


def test_plateau_without_an_upper_edge_and_without_ramps():
    assert plateau(1e300, (2.0, INF), (1.3, INF)) == 1.0
    assert plateau(9.0, (2.0, 3.0), (1.3, INF)) == 1.0
    assert plateau(1.65, (2.0, INF), (1.3, INF)) == pytest.approx(0.5)
    assert plateau(1.0, (1.0, 2.0), (1.0, 2.0)) == 1.0
    assert plateau(2.0, (1.0, 2.0), (1.0, 2.0)) == 1.0
    assert plateau(2.1, (1.0, 2.0), (1.0, 2.0)) is None


def test_clipped_runs_both_ways():
    assert [clipped(x, 0.1, 0.3) for x in (0.0, 0.1, 0.2, 0.3, 1.0)] == pytest.approx([0, 0, 0.5, 1, 1])
    assert [clipped(x, 0.8, 0.4) for x in (0.0, 0.4, 0.6, 0.8, 1.0)] == pytest.approx([1, 1, 0.5, 0, 0])


def test_ratio_of_nothing_is_zero():
    assert metrics.ratio(3, 0) == 0.0
    assert metrics.ratio(3, 2) == 1.5


def test_share_in_runs_by_hand():
    share = metrics._share_in_runs
    words = "a b c d e f".split()
    assert share(words, {("b", "c", "d", "e")}) == pytest.approx(4 / 6)
    assert share(words, {("a", "b", "c", "d"), ("c", "d", "e", "f")}) == 1.0
    assert share(words, set(), own=True) == 0.0
    assert share("a b c d a b c d".split(), set(), own=True) == pytest.approx(4 / 8)
    assert share(["x"] * 8, set(), own=True) == pytest.approx(7 / 8)
    assert share([], set()) == share(["a", "b"], {("a", "b", "c", "d")}) == 0.0


@pytest.mark.parametrize(
    "group", ["plan plans planned planning", "study studies studied", "make makes making", "families family's family"]
)
def test_stem_joins_common_endings(group):
    assert len({metrics._stem(w) for w in group.split()}) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_measured_in_linear_time(name):
    text = HOSTILE[name]
    with at_most(2.0):  # measured: at most 0.4 s
        metrics.count_words(text)
        metrics.jaccard(text, text[::-1])
        metrics.transition_categories(text)
        joint, own = metrics.grounding(text, [text, text[::-1]])
    assert 0.0 <= joint <= 1.0 and len(own) == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_scored(name):
    text = HOSTILE[name]
    dense = text.replace(" ", ",")  # few whitespace words, so that level 1 may pass
    with at_most(4.0):  # measured: at most 0.6 s
        for one, two in ((text, text), (f"a b c d e f g {dense[:20000]}", f"a b c d e f g {dense}")):
            for task in (tldr.TldrTask(grounding=1), arxiv.ArxivTask(grounding=1)):
                row = dict.fromkeys(task.fields, text)
                score = task.score(row, dict(zip(task.agents, (one, two), strict=True)))
                assert 0 <= score.total <= 3.98
                assert all(task.prompt(row, agent) for agent in task.agents)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(), st.text(), st.text())
def test_metrics_take_any_text(source, one, two):
    joint, own = metrics.grounding(source, [one, two])
    assert all(0.0 <= value <= 1.0 for value in (joint, *own))
    assert metrics.grounding(source, [two, one]) == (pytest.approx(joint), own[::-1])
    assert 0.0 <= metrics.jaccard(one, two) == metrics.jaccard(two, one) <= 1.0
    assert metrics.unique_words(one) == set(metrics.tokens(one))
    assert len(transitions(one)) <= metrics.count_words(one) + len(one)

"""What the writing rewards measure: words, transition words, overlap of two texts, support by a source.

Two notions of a word:

- a *whitespace word* is what ``str.split`` gives; only the lengths of level 1 count these;
- a *word token* is a run of letters, digits and underscores, lower-cased, with the combining marks that belong to them.
  One apostrophe may stand inside (``don't``, straight or curly); all other punctuation separates, hyphens too
  (``well-known`` is two tokens). A text of symbols or emoji alone has none. Text is not Unicode-normalised, since
  that takes quadratic time on hostile text: a composed and a decomposed é are two words.

Every function takes any text and runs in linear time. The lexicon and the stop words are English: other languages are
scored, but find no transitions.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

# ``\w`` leaves out combining marks, which would cut the words of many scripts in pieces. The two joiners
# (U+200C, U+200D) stand inside words of Persian and of Indic languages.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c)[0] == "M") + "\u200c\u200d"
_TOKEN = re.compile(rf"\w[\w{_MARKS}]*(?:'\w[\w{_MARKS}]*)*")

#: Words that carry grammar, not content: left out of the Jaccard index and of content words.
STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are aren't as at be because been before being below between
    both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each either else
    ever few for from further had hadn't has hasn't have haven't having he he'd he'll he's her here hers herself him
    himself his how i i'd i'll i'm i've if in into is isn't it it's its itself just let's may me might more most much
    must my myself neither no nor not now of off on once one only or other our ours ourselves out over own per quite
    rather same shall she she'd she'll she's should shouldn't since so some such than that that's the their theirs
    them themselves then there there's these they they'd they'll they're they've this those through to too under
    until up upon us very was wasn't we we'd we'll we're we've were weren't what what's when where whether which while
    who whom whose why will with within without won't would wouldn't yet you you'd you'll you're you've your yours
    yourself yourselves
    """.split()
)

#: Transition words and phrases, in twelve categories; each stands in one category only. Words that mostly do something
#: else (as, since, while, after, like, still) are left out, and "first" counts only with its comma.
LEXICON: dict[str, tuple[str, ...]] = {
    "elaboration": (
        "additionally", "also", "as well", "as well as", "besides", "furthermore", "in addition", "in addition to",
        "moreover", "not only", "what is more", "what's more",
    ),
    "examples": (
        "as an example", "as an illustration", "e.g", "for example", "for instance", "namely", "specifically",
        "such as", "to illustrate",
    ),
    "explanation": (
        "i.e", "in other words", "in simple terms", "in this way", "put differently", "put simply", "that is",
        "that is to say", "that means", "the reason is", "this means", "to clarify", "to explain", "which means",
    ),
    "cause-effect": (
        "accordingly", "as a consequence", "as a result", "because", "because of", "consequently", "due to",
        "for that reason", "for this reason", "hence", "owing to", "so", "so that", "thanks to", "thereby",
        "therefore", "thus",
    ),
    "contrast": (
        "alternatively", "but", "by contrast", "conversely", "however", "in contrast", "instead", "instead of",
        "on the contrary", "on the other hand", "rather than", "unlike", "whereas", "yet",
    ),
    "sequence": (
        "after that", "and then", "finally", "first,", "first of all", "firstly", "in the first place", "last,",
        "lastly", "next", "second,", "secondly", "then", "third,", "thirdly", "to begin with", "to start with",
    ),
    "emphasis": (
        "above all", "certainly", "clearly", "especially", "importantly", "in fact", "in particular", "indeed",
        "most importantly", "most of all", "notably", "obviously", "of course", "particularly", "undoubtedly",
        "without a doubt",
    ),
    "summary": (
        "all in all", "altogether", "in brief", "in conclusion", "in short", "in sum", "in summary", "on the whole",
        "overall", "to conclude", "to sum up", "to summarise", "to summarize",
    ),
    "comparison": (
        "by comparison", "compared to", "compared with", "equally", "in comparison", "in the same manner",
        "in the same way", "just as", "just like", "likewise", "similar to", "similarly",
    ),
    "concession": (
        "admittedly", "albeit", "although", "despite", "despite this", "even so", "even though", "granted",
        "in spite of", "nevertheless", "nonetheless", "notwithstanding", "regardless", "that said", "though",
    ),
    "condition": (
        "as long as", "assuming", "assuming that", "even if", "given that", "if", "if so", "in case", "in that case",
        "on condition that", "only if", "otherwise", "provided that", "unless", "whether",
    ),
    "time": (
        "afterward", "afterwards", "at first", "at last", "at the same time", "before long", "currently",
        "earlier", "eventually", "formerly", "in the meantime", "later", "later on", "meanwhile", "nowadays",
        "previously", "recently", "simultaneously", "since then", "soon", "subsequently", "until", "whenever",
    ),
}  # fmt: skip

_CATEGORY = {phrase: category for category, phrases in LEXICON.items() for phrase in phrases}
# A neighbour that makes a phrase part of a larger word: a letter, or a hyphen or an apostrophe between letters
# ("so-called"). The longest phrase is tried first, so that "even if" is a condition and not two.
_TRANSITION = re.compile(
    rf"(?<![\w{_MARKS}])(?<![\w{_MARKS}]['-])"
    rf"(?:{'|'.join(re.escape(p) for p in sorted(_CATEGORY, key=len, reverse=True))})"
    rf"(?![\w{_MARKS}])(?!['-]\w)"
)


def _plain(text: str) -> str:
    return text.lower().replace("\u2019", "'")


def count_words(text: str) -> int:
    """Number of whitespace words."""
    return len(text.split())


def tokens(text: str) -> list[str]:
    """Word tokens in order, lower-cased; see the module's docstring."""
    return _TOKEN.findall(_plain(text))


def unique_words(text: str) -> set[str]:
    """Distinct word tokens, stop words included."""
    return set(tokens(text))


def content_words(text: str) -> list[str]:
    """Word tokens in order without stop words and single transition words."""
    return [w for w in tokens(text) if w not in STOP_WORDS and w not in _CATEGORY]


def transitions(text: str) -> list[tuple[str, str]]:
    """Every (phrase, category) in order of appearance.

    Phrases match as whole words, in any case, and over any run of whitespace ("as a", newline, "result"), but not
    over punctuation. Each word of the text counts once, in the longest phrase that starts first.
    """
    flat = " ".join(_plain(text).split())
    return [(m[0], _CATEGORY[m[0]]) for m in _TRANSITION.finditer(flat)]


def transition_categories(text: str) -> list[str]:
    """The categories found, in the order of ``LEXICON``."""
    found = {category for _, category in transitions(text)}
    return [category for category in LEXICON if category in found]


def jaccard(one: str, two: str) -> float:
    """``|A & B| / |A | B|`` over unique words without stop words, in [0, 1]; 0 where both are empty."""
    a, b = unique_words(one) - STOP_WORDS, unique_words(two) - STOP_WORDS
    return len(a & b) / len(a | b) if a or b else 0.0


def ratio(numerator: int, denominator: int) -> float:
    """A quotient of counts; 0 where the denominator is 0, so that an empty text is never a good one."""
    return numerator / denominator if denominator else 0.0


def plateau(x: float, best: tuple[float, float], accepted: tuple[float, float]) -> float | None:
    """1 within ``best``, linear down to 0 at the edges of ``accepted``, None outside.

    All edges belong to their interval: at an edge of ``accepted`` the value is 0 and not None, and where the two
    intervals share an edge it is 1. An edge may be infinite.
    """
    if not accepted[0] <= x <= accepted[1]:
        return None
    if x < best[0]:
        return (x - accepted[0]) / (best[0] - accepted[0])
    if x > best[1]:
        # An infinite outer edge leaves nothing to fall to.
        return 1.0 if math.isinf(accepted[1]) else (accepted[1] - x) / (accepted[1] - best[1])
    return 1.0


def clipped(x: float, zero: float, one: float) -> float:
    """Linear in ``x``: 0 at ``zero``, 1 at ``one`` (on either side of it), held there beyond; in [0, 1]."""
    return min(1.0, max(0.0, (x - zero) / (one - zero)))


# -- grounding ----------------------------------------------------------------------------------------------------

_RUN = 4  # words in a row that count as copied: shorter runs are shared by chance ("at the end")
_SALIENT = 20  # content words of the source that matter most


def grounding(source: str, texts: Sequence[str]) -> tuple[float, list[float]]:
    """How far ``texts`` say, in their own sentences, what ``source`` says: ``(joint, own)``, each in [0, 1].

    The own value of a text is a product of six factors in [0, 1], each 1 for ordinary prose about the source:

    - *support*: share of its distinct content words (crudely stemmed) that the source has; 0.25 and more gives 1;
    - *coverage*: how many of the source's 20 most frequent content words it has; 4 and more give 1;
    - *own words*: share of it that stands in runs of 4 words which the other texts, or its own earlier part, have too;
      up to 0.3 gives 1, from 0.8 on 0. Who copied from whom cannot be told, so both lose;
    - *not the whole source*: share of the source that it repeats in such runs; up to 0.4 gives 1, from 0.9 on 0;
    - *sentences*: share of stop words; 0.25 (English prose has 0.35 to 0.55) gives 1, up to 0.1 (a list of words) 0;
    - *restraint*: transitions, of which 1 + words/20 are free; from twice as many on 0.

    The joint value is the geometric mean: one ungrounded text makes the pair ungrounded. These are counts of words,
    not understanding: source words in a senseless order, with stop words between them, pass.
    """
    words = [tokens(text) for text in texts]
    runs = [set(_grams(w)) for w in words]
    source_words = tokens(source)
    source_content = [_stem(w) for w in content_words(source)]
    # Counter.most_common keeps the order of first appearance among equals: deterministic.
    salient = {w for w, _ in Counter(source_content).most_common(_SALIENT)}
    known = set(source_content)
    own = []
    for i, text in enumerate(texts):
        content = {_stem(w) for w in content_words(text)}
        others = set().union(*(r for j, r in enumerate(runs) if j != i))
        allowed = 1 + len(words[i]) / 20
        own.append(
            clipped(ratio(len(content & known), len(content)), 0.0, 0.25)
            * clipped(len(content & salient), 0, max(1, min(4, len(salient))))
            * clipped(_share_in_runs(words[i], others, own=True), 0.8, 0.3)
            * clipped(_share_in_runs(source_words, runs[i]), 0.9, 0.4)
            * clipped(ratio(sum(w in STOP_WORDS for w in words[i]), len(words[i])), 0.1, 0.25)
            * clipped(len(transitions(text)), 2 * allowed, allowed)
        )
    return math.prod(own) ** (1 / len(own)), own


def _grams(words: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(_RUN)), strict=False)


def _share_in_runs(words: Sequence[str], known: set[tuple[str, ...]], *, own: bool = False) -> float:
    """Share of ``words`` that lie in runs of ``known``; with ``own`` also in runs that stood earlier in ``words``."""
    covered, end, seen = 0, 0, set()
    for i, gram in enumerate(_grams(words)):
        if gram in known or gram in seen:
            covered += i + _RUN - max(i, end)
            end = i + _RUN
        if own:
            seen.add(gram)
    return ratio(covered, len(words))


def _stem(word: str) -> str:
    """Cut the commonest English endings, so that "plan", "plans", "planned" and "planning" are one word."""
    word = word.split("'")[0]
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word

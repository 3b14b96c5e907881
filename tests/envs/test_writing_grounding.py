"""What ``grounding`` is for: stuffed and copied texts lose to honest ones."""

import pytest

from llm_marl_envs.writing import arxiv, metrics, tldr


def tldr_score(one, two, **kwargs):
    row = {"prompt": kwargs.pop("post")}
    return tldr.TldrTask(**kwargs).score(row, {"summarizer": one, "elaborator": two})


def arxiv_score(one, two, **kwargs):
    row = {"abstract_text": kwargs.pop("abstract")}
    return arxiv.ArxivTask(**kwargs).score(row, {"background": one, "method": two})


POST = """TITLE: My landlord wants my cat gone

POST: I have rented this flat for two years, always with my cat Otto. The landlord met him on the day I signed, \
scratched him behind the ears and never minded. Last week a new neighbour moved in across the hall. She has a severe \
allergy and asked the landlord to do something about the hair in the stairwell. Now he says the cat has to leave by \
Friday, or I do. My lease allows pets, in writing, and I clean the stairs every Sunday. I have offered to pay for an \
air filter on her side of the door. He did not answer. My sister says I should call a lawyer at once. I would rather \
knock on the neighbour's door with a cake first, but I am afraid that this will look like pressure. What would you do?

TL;DR:"""
SHORT = (
    "Landlord wants my cat out by Friday because of a neighbour's allergy, although my lease allows pets. Lawyer, or "
    "cake for the neighbour first?"
)
LONG = (
    "For two years I have lived in my flat with a cat and nobody minded. However, a woman with a severe allergy has "
    "now moved in across the hall, so the landlord demands that Otto leave by Friday. The lease permits pets in "
    "writing, and he ignored my offer of an air filter. My sister wants me to get a lawyer, whereas I would like to "
    "talk to the neighbour over cake."
)
PLAIN_LONG = (
    "The writer has had a cat in a rented flat for years without any trouble. A new tenant across the hall turned out "
    "to be allergic, and the landlord wants the animal gone by the end of the week. The contract allows it, but the "
    "man does not reply to offers. It is a choice between calling a lawyer and baking something for the neighbour."
)
ALL = " ".join(group[0] for group in metrics.LEXICON.values())
SALAD = (
    "river copper blanket thunder orange piano window marble engine forest candle bottle rocket garden silver ocean "
    "ladder pepper violin desert harbor tunnel magnet feather carpet pillow hammer lantern meadow canyon"
).split()
BODY = tldr.TldrTask().source({"prompt": POST}).split("\n\n")[1]
KEYWORDS = list(dict.fromkeys(metrics.content_words(BODY)))[::-1]
SENTENCE = (
    "The landlord wants the cat to leave by Friday, so for example later, overall, indeed, likewise, though my lease "
    "allows it."
)
STUFFED = {
    "transitions after an honest text": (SHORT, f"{LONG} {ALL}"),
    "transitions in both": (f"{SHORT} {ALL}", f"{LONG} {ALL} {ALL}"),
    "keywords and transitions": (" ".join(KEYWORDS[:8]), f"{ALL} {KEYWORDS[0]}"),
    "keywords of the post, no sentences": (" ".join(KEYWORDS[:12]), f"{' '.join(KEYWORDS[8:24])} {ALL}"),
    "word salad": (" ".join(SALAD[:16]), f"{' '.join(SALAD[14:])} {ALL}"),
    "word salad with stop words": ("the " + " of the ".join(SALAD[:14]), f"{' and in the '.join(SALAD[12:])} {ALL}"),
    "the other's text with a tail": (SHORT, f"{SHORT} {ALL} {' '.join(SALAD[:12])}"),
    "the other's text with keywords": (SHORT, f"{SHORT} {ALL} {' '.join(KEYWORDS[:20])}"),
    "the whole post": (LONG, BODY),
    "the whole post and its beginning": (BODY[:300], BODY),
    "one sentence over and over": ("My landlord wants the cat gone because of an allergy.", f"{SENTENCE} {SENTENCE}"),
}


@pytest.mark.parametrize("name", STUFFED)
def test_grounding_makes_stuffing_lose(name):
    honest = [tldr_score(SHORT, long, post=POST, grounding=1) for long in (LONG, PLAIN_LONG)]
    stuffed = tldr_score(*STUFFED[name], post=POST, grounding=1)
    assert stuffed.total < min(h.total for h in honest) - 0.5


# Each text falls to one factor alone: without that factor it would count as grounded.
ONE_FAULT = {
    "no support": (
        "The cat and the landlord of the neighbour by Friday, and then the "
        + " of the ".join(SALAD)
        + " were in the "
        + " with a ".join(w + "y" for w in SALAD)
    ),
    "no coverage": "She is afraid of a cake and of the pressure to knock on it, and he would rather clean the stairs.",
    "repeats itself": "The neighbour with the allergy wants the cat of the landlord gone by Friday. " * 4,
    "repeats the source": BODY,
    "no sentences": " ".join(KEYWORDS[:40]),
    "too many transitions": f"{LONG} {ALL}",
}


@pytest.mark.parametrize("name", ONE_FAULT)
def test_each_factor_of_grounding_alone_stops_its_fault(name):
    source = tldr.TldrTask().source({"prompt": POST})
    other = "Pets are in the lease."
    assert metrics.grounding(source, [LONG, other])[1][0] == 1.0
    assert metrics.grounding(source, [ONE_FAULT[name], other])[1][0] <= 0.3


def test_copies_lower_both_texts():
    source = tldr.TldrTask().source({"prompt": POST})
    assert metrics.grounding(source, [SHORT, LONG]) == (1.0, [1.0, 1.0])
    assert metrics.grounding(source, [SHORT, SHORT]) == (0.0, [0.0, 0.0])
    joint, (short, _) = metrics.grounding(source, [SHORT, f"{SHORT} {LONG}"])
    assert joint == short == 0.0


def test_a_source_without_content_grounds_nothing():
    assert metrics.grounding("", [SHORT, LONG]) == (0.0, [0.0, 0.0])


def test_without_grounding_stuffing_wins():
    honest = tldr_score(SHORT, LONG, post=POST)
    wins = [name for name in STUFFED if tldr_score(*STUFFED[name], post=POST).total >= honest.total]
    assert len(wins) >= 5, wins
    assert "the other's text with a tail" in wins and "transitions after an honest text" in wins


def test_more_transitions_never_make_up_for_lost_grounding():
    """From where an honest text leaves its allowance, each further linking word costs more than it brings."""
    extra = [group[0] for group in metrics.LEXICON.values()]
    totals = [
        tldr_score(SHORT, " ".join([LONG, *extra[:n]]), post=POST, grounding=1).total for n in range(len(extra) + 1)
    ]
    start = totals.index(max(totals))
    assert start <= 4
    assert totals[start:] == sorted(totals[start:], reverse=True)


def test_grounding_counts_at_level_4_only_and_splits_by_own_grounding():
    assert tldr_score(SHORT, SHORT, post=POST, grounding=1).terms["grounding"] == 0  # level 2 stops
    score = tldr_score(SHORT, PLAIN_LONG, post=POST, grounding=2)
    own = score.details["grounding"]
    assert score.terms["grounding"] == pytest.approx(2 * (own["summarizer"] * own["elaborator"]) ** 0.5)
    rest = tldr_score(SHORT, PLAIN_LONG, post=POST).per_agent
    for agent in own:
        part = score.terms["grounding"] * own[agent] / sum(own.values())
        assert score.per_agent[agent] == pytest.approx(rest[agent] + part)


def test_without_a_weight_there_is_no_such_term():
    assert "grounding" not in tldr_score(SHORT, LONG, post=POST).terms
    assert "grounding" not in tldr_score(SHORT, LONG, post=POST).details


ABSTRACT = """Coastal marshes store carbon at high rates, but estimates of that storage rest on a few cores per \
site and ignore how creeks move sediment. We present a method that combines repeated drone surveys \
with a sediment model to map carbon storage in tidal marshes at a resolution of one metre. On four \
marshes in the Wadden Sea the method explains 81 per cent of the variance in 212 independent cores, \
twice as much as interpolation between cores. Storage near creeks was three times that of the marsh \
interior, so sampling plans that avoid creeks underestimate the total by a fifth."""
BACKGROUND = (
    "Salt marshes along the coast take carbon out of the air and bury it in mud, where it may stay for centuries. "
    "Because of this, they appear in national plans for the climate, and money is paid for their restoration. "
    "However, nobody can pay fairly for what has not been measured. Most estimates of carbon storage come from a "
    "handful of cores at each site, and the value of one core is spread over a wide area. That is a problem in tidal "
    "marshes, where conditions change within a few steps. Creeks carry sediment into the marsh with every tide and "
    "drop most of it close to their banks. A person who takes cores usually keeps away from the banks, which are soft "
    "and hard to reach. For example, many sampling plans follow straight lines across the interior. It has been "
    "suspected that the totals are biased as a result, but the size of the bias is unknown."
)
METHOD = (
    "In this paper we map carbon at a resolution of one metre. A drone flies over each marsh several times a year, "
    "and from its surveys we derive the height of the surface and the course of every creek. These data drive a model "
    "of sediment, which predicts how much mud is laid down at each point and therefore how much carbon is stored "
    "there. We test the predictions in the Wadden Sea, on four marshes, against 212 cores that the model has never "
    "seen. The maps explain 81 per cent of the variance; in contrast, interpolation explains about half as much. They "
    "also show where the carbon lies: next to creeks there is three times as much as in the interior. If a plan for "
    "sampling leaves out such places, it misses a fifth of the whole. Our results suggest that existing inventories "
    "should be corrected, and that future work can do with fewer cores if they are chosen with a map at hand."
)


def test_grounding_on_arxiv():
    honest = arxiv_score(BACKGROUND, METHOD, abstract=ABSTRACT, grounding=1)
    assert honest.details["level"] == 4 and honest.terms["grounding"] > 0.8
    salad = " ".join(f"the {w} of" for w in SALAD * 2)
    stuffed = {
        "copy": (BACKGROUND, f"{BACKGROUND} {ALL}"),
        "one text": (METHOD, METHOD),
        "sentence": ("Marshes store carbon, but this matters also because of creeks. " * 14,) * 2,
        "salad": (salad, f"{salad} {ALL}"),
        "abstract twice": (f"{ABSTRACT} {ALL} {ABSTRACT}", f"{ABSTRACT} {ALL} {ABSTRACT}"),
        "transitions": (f"{BACKGROUND} {ALL}", f"{METHOD} {ALL}"),
    }
    plain = arxiv_score(BACKGROUND, METHOD, abstract=ABSTRACT).total
    assert sum(arxiv_score(*pair, abstract=ABSTRACT).total >= plain for pair in stuffed.values()) >= 3
    for name, pair in stuffed.items():
        assert arxiv_score(*pair, abstract=ABSTRACT, grounding=1).total < honest.total - 0.25, name

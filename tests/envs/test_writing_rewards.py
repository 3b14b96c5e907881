"""Known answers of the writing rewards at every edge, their properties, prompts and data."""

import doctest
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_marl_envs import datasets
from llm_marl_envs.env import CollaborationEnv
from llm_marl_envs.errors import ConfigError, DataError
from llm_marl_envs.writing import arxiv, metrics, tldr
from llm_marl_envs.writing.levels import Levels, score_levels

TERMS = ["length", "length_ratio", "unique_ratio", "transitions", "jaccard"]
ONE_OF_EACH = [
    "also", "such as", "that means", "because", "but", "finally",
    "indeed", "overall", "likewise", "although", "unless", "later",
]  # fmt: skip


def build(words, chars, unique, first=0, tail=""):
    """A text of exactly so many whitespace words, characters and unique words, none a stop word or a transition.

    ``first`` numbers its words: texts whose ranges overlap share words. ``tail`` is put in front, and counted.
    """
    start = tail.split()
    names = [f"x{i}" for i in range(first, first + unique - len(set(start)))]
    count = words - len(start)
    body = start + [names[i % len(names)] for i in range(count)]
    text = " ".join(body)
    assert len(text) <= chars, (len(text), chars)
    return text + "!" * (chars - len(text))  # punctuation belongs to no word token


def tldr_score(one, two, **kwargs):
    row = {"prompt": kwargs.pop("post", "a post")}
    return tldr.TldrTask(**kwargs).score(row, {"summarizer": one, "elaborator": two})


def arxiv_score(one, two, **kwargs):
    row = {"abstract_text": kwargs.pop("abstract", "an abstract")}
    return arxiv.ArxivTask(**kwargs).score(row, {"background": one, "method": two})


def terms(score):
    assert list(score.terms)[:5] == TERMS
    return [pytest.approx(value) for value in score.terms.values()]


# -- level 1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "passes"),
    [
        (8, 8, True),
        (7, 20, False),
        (20, 7, False),
        (256, 256, True),
        (257, 256, False),
        (256, 257, False),
        (0, 0, False),
    ],
)
def test_tldr_length(one, two, passes):
    # As long as each other: level 2 stops, so that only level 1 pays.
    score = tldr_score(" ".join(["x1"] * one), " ".join(["x1"] * two))
    assert score.total == (0.5 if passes else 0.0)
    assert score.terms["length"] == score.total
    assert score.details["words"] == {"summarizer": one, "elaborator": two}


@pytest.mark.parametrize(("one", "two", "passes"), [(128, 256, True), (127, 128, False), (128, 257, False)])
def test_arxiv_length(one, two, passes):
    score = arxiv_score(build(one, 2000, 50), build(two, 4200, 50))  # ratio 2.1: level 2 stops
    assert score.total == (0.5 if passes else 0.0)


# -- level 2 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chars", "value"),
    [(109, None), (110, 0), (135, 0.5), (160, 1), (240, 1), (320, 1), (410, 0.5), (500, 0), (501, None)],
)
def test_tldr_length_ratio(chars, value):
    score = tldr_score(build(10, 100, 10), build(20, chars, 20, first=50))
    # Twice the unique words: where level 2 passes, at its edge too, level 3 pays.
    expected = [0.5, 0, 0, 0, 0] if value is None else [0.5, value, 0.5, 0, 0]
    assert terms(score) == expected
    assert score.details["level"] == (2 if value is None else 4)
    assert score.details["character_ratio"] == chars / 100


@pytest.mark.parametrize(
    ("levels", "chars", "value"),
    [
        ("paper", 799, None), ("paper", 800, 0), ("paper", 900, 0.5), ("paper", 1000, 1), ("paper", 1300, 1),
        ("paper", 1400, 0.5), ("paper", 1500, 0), ("paper", 1501, None),
        ("live", 799, None), ("live", 800, 0), ("live", 1050, 0.5), ("live", 1300, 1), ("live", 1600, 1),
        ("live", 1800, 0.5), ("live", 2000, 0), ("live", 2001, None),
    ],
)  # fmt: skip
def test_arxiv_length_ratio(levels, chars, value):
    score = arxiv_score(build(128, 1000, 30), build(128, chars, 30, first=50), levels=levels)
    assert terms(score) == ([0.5, 0, 0, 0, 0] if value is None else [0.5, value, 0.5, 0, 0])


# -- level 3 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unique", "value"), [(12, None), (13, 0), (15, 2 / 7), (20, 1), (40, 1)])
def test_tldr_unique_ratio(unique, value):
    score = tldr_score(build(10, 100, 10), build(40, 200, unique, first=50, tail="also"))
    expected = [0.5, 1, 0, 0, 0] if value is None else [0.5, 1, 0.5 * value, 0.16, 0]
    assert terms(score) == expected
    assert score.details["level"] == (3 if value is None else 4)


@pytest.mark.parametrize(
    ("unique", "value"), [(9, None), (10, 0), (12, 0.5), (14, 1), (26, 1), (30, 0.5), (34, 0), (35, None)]
)
def test_arxiv_unique_ratio(unique, value):
    score = arxiv_score(build(128, 1000, 20), build(128, 1000, unique, first=50, tail="also"))
    assert terms(score) == ([0.5, 1, 0, 0, 0] if value is None else [0.5, 1, 0.5 * value, 0.16, 0])


def test_texts_without_word_tokens_stop_at_level_3():
    score = tldr_score("! " * 8, "\U0001f600 " * 20)
    assert score.details["level"] == 3 and score.total == pytest.approx(1.5)
    assert score.details["unique_ratio"] == 0.0


# -- level 4 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("categories", range(13))
def test_transitions_by_number_of_categories(categories):
    tail = " ".join(ONE_OF_EACH[:categories])
    score = tldr_score(build(20, 100, 20), build(60, 300, 60, first=50, tail=tail))
    expected = 0.4 * min(1, 0.4 + 0.05 * (categories - 1)) if categories else 0
    assert terms(score) == [0.5, 1, 0.5, expected, 0]
    assert score.details["categories"] == list(metrics.LEXICON)[:categories]


def test_tldr_reads_transitions_of_the_elaborator_only_and_arxiv_those_of_both():
    plain, linked = build(10, 100, 10), build(20, 200, 20, first=50, tail="moreover because")
    assert tldr_score(plain, linked).terms["transitions"] == pytest.approx(0.4 * 0.45)
    linked, plain = build(10, 100, 10, tail="moreover because"), build(20, 200, 20, first=50)
    assert tldr_score(linked, plain).terms["transitions"] == 0
    one, two = (build(128, 1000, 30, first=i, tail=tail) for i, tail in ((0, "also but"), (50, "but if")))
    assert arxiv_score(one, two).terms["transitions"] == pytest.approx(0.4 * 0.5)  # three categories together


def test_sofa_is_no_transition():
    sofa = "The sofa in the thuslike butterfly room looks iffy, sooner or so-called later-than-usual, said my aunt"
    score = tldr_score("My aunt saw a red sofa in a room", sofa)
    assert score.details["level"] == 4
    assert score.terms["transitions"] == 0 and score.details["categories"] == []


@pytest.mark.parametrize(("shared", "union", "value"), [(0, 103, 0), (3, 200, 0.5), (3, 100, 1), (30, 73, 1)])
def test_tldr_jaccard(shared, union, value):
    one = 34
    two = union - one + shared
    score = tldr_score(build(34, 200, one), build(two, 900, two, first=one - shared))
    assert score.details["jaccard"] == pytest.approx(shared / union)
    assert score.terms["jaccard"] == pytest.approx(0.6 * value)


@pytest.mark.parametrize(("shared", "union", "value"), [(0, 100, 0), (23, 200, 0.5), (23, 100, 1), (60, 62, 1)])
def test_arxiv_jaccard(shared, union, value):
    one = (union + shared) // 2
    two = union - one + shared
    score = arxiv_score(build(128, 1000, one), build(128, 1000, two, first=one - shared))
    assert score.details["jaccard"] == pytest.approx(shared / union)
    assert score.terms["jaccard"] == pytest.approx(0.6 * value)


def test_the_best_that_texts_can_earn_is_2_98_of_3():
    everything = " ".join(ONE_OF_EACH)
    score = tldr_score(build(20, 100, 20), build(60, 300, 60, first=10, tail=everything))
    assert score.total == pytest.approx(2.98) and not score.solved
    assert sum(tldr.TldrTask().max_terms.values()) == 3.0
    assert tldr.TldrTask().levels.reachable() == pytest.approx(2.98)


# -- each agent's own part ------------------------------------------------------------------------------------------


def test_tldr_parts():
    score = tldr_score(build(20, 100, 20), build(60, 300, 60, first=10, tail="also"))
    assert score.terms["transitions"] == pytest.approx(0.16)
    assert score.per_agent == {"summarizer": pytest.approx(1.3), "elaborator": pytest.approx(1.46)}
    assert tldr.TldrTask().max_parts() == {"summarizer": pytest.approx(1.3), "elaborator": pytest.approx(1.7)}


def test_arxiv_parts_follow_the_categories_of_each_text():
    one, two = (build(128, 1000, 30, first=i, tail=tail) for i, tail in ((0, "but"), (50, "but if later")))
    score = arxiv_score(one, two)
    assert score.terms["transitions"] == pytest.approx(0.2)
    assert score.per_agent == {"background": pytest.approx(1 + 0.05), "method": pytest.approx(1 + 0.15)}
    assert arxiv.ArxivTask().max_parts() == {"background": pytest.approx(1.7), "method": pytest.approx(1.7)}


def test_individual_rewards_reach_the_agents():
    env = tldr.parallel_env(data=[{"prompt": "post"}], reward_mode="individual")
    env.reset(seed=0)
    one, two = build(20, 100, 20), build(60, 300, 60, first=10, tail="also")
    _, rewards, _, _, infos = env.step({"summarizer": one, "elaborator": two})
    assert rewards == {"summarizer": pytest.approx(1.3), "elaborator": pytest.approx(1.46)}
    assert infos["summarizer"]["score"] == pytest.approx(2.76)


# -- properties -----------------------------------------------------------------------------------------------------

POOL = st.sampled_from(
    [
        *(p for group in metrics.LEXICON.values() for p in group),
        *sorted(metrics.STOP_WORDS)[:40],
        *(f"x{i}" for i in range(60)),
    ]
)


def texts(least, most):
    return st.lists(POOL, min_size=least, max_size=most).map(" ".join)


def check(score, task, weight):
    assert list(score.terms) == list(task.max_terms) == TERMS + ["grounding"] * bool(weight)
    for name, value in score.terms.items():
        assert 0 <= value <= task.max_terms[name] + 1e-12
    assert score.total == sum(score.terms.values()) == pytest.approx(sum(score.per_agent.values()), abs=1e-12)
    assert 0 <= score.total <= 2.98 + weight + 1e-12
    for agent, part in score.per_agent.items():
        assert -1e-12 <= part <= task.max_parts()[agent] + 1e-12
    level = score.details["level"]
    assert (score.terms["length"] > 0) == (level > 1)
    stopped = {1: TERMS, 2: TERMS[1:], 3: TERMS[2:], 4: []}[level]
    assert all(score.terms[name] == 0 for name in stopped)
    if level < 4:
        assert score.terms.get("grounding", 0) == 0
    json.dumps(score.details)  # infos can be logged


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.one_of(st.text(), texts(6, 30)), st.one_of(st.text(), texts(10, 60)), texts(1, 40), st.sampled_from([0, 1, 2.5])
)
def test_tldr_properties(one, two, post, weight):
    task = tldr.TldrTask(grounding=weight)
    check(tldr_score(one, two, post=post, grounding=weight), task, weight)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(texts(120, 200), texts(120, 200), texts(1, 40), st.sampled_from([0, 1]), st.sampled_from(["paper", "live"]))
def test_arxiv_properties(one, two, abstract, weight, levels):
    task = arxiv.ArxivTask(levels, weight)
    check(arxiv_score(one, two, abstract=abstract, grounding=weight, levels=levels), task, weight)


# -- tasks, prompts, data -------------------------------------------------------------------------------------------


POST = "SUBREDDIT: r/pets\n\nTITLE: My cat\n\nPOST: The landlord wants it gone by Friday.\n\nTL;DR:"
ABSTRACT = "We map the carbon in tidal marshes with drones."


@pytest.mark.parametrize("cue", ["TL;DR:", "tl;dr:", "TLDR", "TL;DR: \n"])
def test_the_cue_at_the_end_of_hub_posts_is_cut(cue):
    assert tldr.strip_cue(f"SUBREDDIT: r/x\n\nTITLE: t\n\nPOST: TL;DR: in the middle\n\n{cue}").endswith(
        "in the middle"
    )
    assert tldr.strip_cue(cue) == cue.strip()  # nothing else is left: keep it


def test_labels_are_no_content():
    assert tldr.TldrTask().source({"prompt": "SUBREDDIT: r/pets\n\nTITLE: A cat\n\nPOST: POST office\n\nTL;DR:"}) == (
        "r/pets\n\nA cat\n\nPOST office"
    )


def test_prompts_hold_the_source_the_lengths_and_the_other_part():
    row = {"prompt": POST, "completion": "the secret reference"}
    task = tldr.TldrTask()
    short, long = (task.prompt(row, agent) for agent in task.agents)
    assert all("gone by Friday." in prompt for prompt in (short, long)) and "TL;DR" not in short + long
    assert "about 25 words" in short and "about 65 words" in long and "1.6 to 3.2 times" in long
    assert "secret" not in short + long + task.describe(row)
    for levels, relation in (("paper", "1 to 1.3 times"), ("live", "1.3 to 1.6 times")):
        task = arxiv.ArxivTask(levels)
        first, second = (task.prompt({"abstract_text": ABSTRACT}, agent) for agent in task.agents)
        assert relation in first and relation in second and ABSTRACT in first
        assert "You write the first part: the background" in first and "second part: the method" in first
        assert "You write the second part: the method" in second and "first part: the background" in second


@pytest.mark.parametrize("task", [tldr.TldrTask(), arxiv.ArxivTask(), arxiv.ArxivTask("live")])
def test_the_lengths_that_prompts_ask_for_earn_full_marks(task):
    one, two = task.levels.target_words
    low, high = task.levels.ratio_best
    assert low <= two / one <= high
    assert task.levels.words[0] <= one <= task.levels.words[1] and task.levels.words[0] <= two <= task.levels.words[1]


def test_levels():
    assert tldr.TldrTask("live").levels == tldr.TldrTask("paper").levels
    own = tldr.TldrTask(Levels((1, 9), (1, 2), (1, 2), (1, 2), (1, 2), 0.5, (0,), (4, 6)))
    assert own.max_parts() == {"summarizer": pytest.approx(1.7), "elaborator": pytest.approx(1.3)}
    with pytest.raises(ConfigError, match="Did you mean 'paper'"):
        tldr.TldrTask("papers")
    with pytest.raises(ConfigError, match="ratio_best"):
        Levels((1, 9), (1, 3), (1, 2), (1, 2), (1, 2), 0.5, (0,), (4, 6))
    for weight in (-1, float("nan"), float("inf"), "1", True):
        with pytest.raises(ConfigError, match="grounding"):
            tldr.TldrTask(grounding=weight)


def test_tasks_pickle():
    task = pickle.loads(pickle.dumps(arxiv.ArxivTask("live", 0.5)))
    assert task.levels == arxiv.LIVE and task.max_terms["grounding"] == 0.5


def test_score_levels_needs_no_task():
    assert score_levels(tldr.PAPER, ("a", "b"), ("", "")).per_agent == {"a": 0.0, "b": 0.0}


@pytest.mark.parametrize(
    ("module", "row"),
    [
        (tldr, {"prompt": POST, "completion": "a reference"}),  # trl-lib/tldr
        (arxiv, {"abstract_text": ABSTRACT}),  # OpenMLRL/arXiv_abstract
    ],
)
def test_hub_schemas_load_from_a_local_file(module, row, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(3)), encoding="utf-8")
    env = module.parallel_env(data=path, split="train[:2]")
    assert isinstance(env, CollaborationEnv) and len(env.rows) == 2
    observations, _ = env.reset(seed=0)
    assert all(env.observation_space(a).contains(o) for a, o in observations.items())
    field = module.parallel_env(data=path).task.fields[0]
    path.write_text(json.dumps({"body": row[field]}), encoding="utf-8")
    assert len(module.parallel_env(data=path, fields={field: "body"}).rows) == 1
    with pytest.raises(DataError, match=field):
        module.parallel_env(data=path)


@pytest.mark.parametrize("module", [tldr, arxiv])
def test_aec(module):
    env = module.env()
    env.reset(seed=1)
    assert env.possible_agents == list(module.parallel_env().task.agents)


@pytest.mark.parametrize(("module", "low", "high"), [(tldr, 60, 250), (arxiv, 100, 250)])
def test_packaged_rows(module, low, high):
    task = module.parallel_env().task
    for split, count in (("train", 48), ("eval", 16)):
        rows = datasets.load_rows(module.DATA, split=split, required=task.fields)
        assert len(rows) == count
        for row in rows:
            words = metrics.count_words(task.source(row))
            assert low <= words <= high + 15, (row["id"], words)  # a post's title comes on top
            prompts = [task.prompt(row, agent) for agent in task.agents]
            assert all(p.startswith(("TITLE: ", "Abstract of a paper:\n")) for p in prompts)
            if row.get("completion"):
                assert not any(row["completion"] in p for p in prompts)


@pytest.mark.parametrize("module", [tldr, arxiv])
def test_the_example_on_the_page_is_real(module):
    result = doctest.testmod(module)
    assert result.attempted >= 7 and result.failed == 0

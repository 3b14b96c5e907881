"""Golden transcripts: one scripted play per id, every observation, reward and term compared to the letter.

Record them again, where a change of results is meant, and read the difference before you commit it::

    python tests/envs/test_golden.py            # all ids
    python tests/envs/test_golden.py ID ...     # some
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from coding_rows import ALMOST, AUX, COOP_ROWS, HUMANEVAL_ROWS, MBPP_ROWS, SOLVED

from llm_marl_envs import make
from llm_marl_envs.registry import BUILT_IN

FOLDER = Path(__file__).resolve().parents[1] / "golden"

SHORT = "Flatmate Oskar numbers the eggs in our shared fridge and audits teabags now; how do I gently tell him he lost the plot?"
LONG = (
    "Four of us share a flat and split the cost of eggs evenly. First Oskar pencilled numbers on the shells because he "
    "suspected a thief. Then a grid appeared on the fridge door, and finally an email demanded 84p for missing ones. "
    "However, I dropped one behind the cooker myself, while he probably fried others after his bar shifts. Although Beth "
    "wants a house meeting, I would rather laugh."
)
BACKGROUND = (
    "Many cool white dwarfs show calcium in their spectra although heavy elements sink out of sight quickly in such "
    "stars. Therefore the metals must arrive from outside, and most astronomers read them as debris from broken "
    "planetesimals that once orbited the star. What remains unclear is the rhythm of this infall. Single spectra cannot "
    "say whether the debris falls in steadily or in bursts, because one epoch gives one value of the line strength and "
    "nothing else. For example, a star that looks heavily polluted today may have been clean a season ago. This matters "
    "since the accretion rate is used to weigh the parent bodies, and an estimate taken during a burst would be far too "
    "high. As a result, a survey that returns to the same stars for years is needed, with spectra good enough to follow "
    "small changes of the calcium line."
)
METHOD = (
    "In contrast to earlier work, we follow 94 hydrogen white dwarfs over eleven years with 2,316 spectra of medium "
    "resolution. First, we choose temperatures between 11,000 and 19,000 K, where metals settle within days to a few "
    "years, so that a change in the accretion rate soon alters the equivalent width of the calcium K line. Then we "
    "measure this width at every epoch and allow for the gaps in the sampling. For 91 stars it stays constant to 6 per "
    "cent; however, three vary: two strengthen within a season and relax again, while one weakens steadily. Overall, "
    "bursts that at least double the rate occur less often than once per 120 years per star. If this holds for other "
    "samples, steady infall is the rule and the masses of parent bodies need no large correction. Although magnetic "
    "stars and close binaries were left out, our limit can guide models of how debris discs feed their stars, and it "
    "shows what long monitoring of faint stars can add to single spectra."
)

SQUARES = "def sum_of_squares(numbers):\n    return "
UNSHIFT = "def unshift(text):\n    return "
RING = "Here it is:\n```python\nfrom math import pi\n\n\ndef aux(radius):\n    return pi * radius ** 2\n```\n"

#: For each id its plays: (keywords, options or seed of reset, joint actions by turn, in the order of the agents).
PLAYS: dict[str, list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, ...]]]]] = {
    "coding/coop-humaneval-v0": [
        ({"data": COOP_ROWS}, {"options": {"id": "Own/0"}}, [tuple(SOLVED.values())]),
        (
            {"data": COOP_ROWS, "num_turns": 2, "feedback": "signals", "visible_tests": "all", "turn_reward": "sum"},
            {"options": {"id": "Own/0"}},
            [tuple(ALMOST.values()), ("", "")],
        ),
    ],
    "coding/humaneval-v0": [
        ({"data": HUMANEVAL_ROWS}, {"options": {"id": "Own/0"}}, [tuple(SOLVED.values())]),
        (
            {"data": HUMANEVAL_ROWS, "num_turns": 5, "feedback": "diagnosis", "reward_mode": "individual"},
            {"options": {"id": "Own/0"}},
            [
                ("I would square them.", f"{SQUARES}sum(n * n for n in numbers"),
                (AUX, f"{SQUARES}sum(missing(n) for n in numbers)"),
                ("def aux(numbers):\n    return sum(n * n for n in numbers)", f"{SQUARES}aux(numbers)"),
                (AUX, "def sum_of_squares(numbers):\n    aux(0)\n    return sum(n ** 2 for n in numbers)"),
                tuple(SOLVED.values()),
            ],
        ),
        (
            {"data": HUMANEVAL_ROWS, "num_helpers": 2, "num_turns": 2, "feedback": "diagnosis", "visible_tests": 0}
            | {"history": "full"},
            {"options": {"id": "Own/1"}},
            [
                ("def aux_1(c):\n    return LETTERS.index(c)", "def aux_2(c)", f"{UNSHIFT}aux_1(aux_1(text))"),
                (
                    "def aux_1(c):\n    return LETTERS.index(c)",
                    "def aux_2(n):\n    return LETTERS[n % 26]",
                    f"{UNSHIFT}''.join(aux_2(aux_1(c) - 3) for c in text)",
                ),
            ],
        ),
    ],
    "coding/mbpp-v0": [
        (
            {"data": MBPP_ROWS},
            {"options": {"id": "2"}},
            [(RING, "def ring_area(inner, outer=2):\n    return aux(outer) - aux(inner)")],
        ),
        (
            {"data": MBPP_ROWS, "num_turns": 2, "feedback": "diagnosis", "visible_tests": "last:1"},
            {"options": {"id": "3"}},
            [("def aux(x):\n    return x", "def odd_digits(number):\n    return [int(d) for d in str(aux(number))]")]
            * 2,
        ),
    ],
    "probe/own-word-v0": [
        ({}, {"seed": 0}, [("B", "D")]),
        ({"num_agents": 3, "reward_mode": "individual"}, {"seed": 1}, [("B", "A", "")]),
    ],
    "probe/same-word-v0": [({}, {"seed": 0}, [("C", "C")]), ({}, {"seed": 0}, [("C", "D")])],
    "probe/two-turn-v0": [
        ({}, {"seed": 0}, [("B", "D"), ("C", "A")]),
        ({"history": "full"}, {"seed": 0}, [("B", "A"), ("C", "A")]),
    ],
    "writing/arxiv-v0": [
        ({}, {"options": {"index": 0}}, [(BACKGROUND, METHOD)]),
        (
            {"grounding": 1.0, "num_turns": 2, "feedback": "diagnosis", "reward_mode": "individual", "split": "eval"},
            {"seed": 3},
            [("Too short.", METHOD), (BACKGROUND, METHOD)],
        ),
    ],
    "writing/tldr-v0": [
        ({}, {"options": {"index": 0}}, [(SHORT, LONG)]),
        (
            {"grounding": 1.0, "num_turns": 3, "feedback": "signals", "history": "full", "share_responses": True},
            {"options": {"id": "tldr-001"}},
            [("Eggs.", LONG), (LONG, SHORT), (SHORT, LONG)],
        ),
    ],
}


def record(env_id: str) -> str:
    """The plays of one id as text: all that reset and step return, and the state at the end."""
    lines = [f"Golden transcript of {env_id}. Recorded by tests/envs/test_golden.py: do not edit."]
    for keywords, reset, turns in PLAYS[env_id]:
        env = make(env_id, **keywords)
        observations, infos = env.reset(**reset)
        named = {key: "..." if key == "data" else value for key, value in keywords.items()}
        lines += ["", f"=== make({env_id!r}, **{named}), reset(**{reset})"]
        lines += [_shown("observation", observations), _shown("info", infos)]
        for number, texts in enumerate(turns, start=1):
            actions = dict(zip(env.agents, texts, strict=True))
            observations, rewards, terminations, truncations, infos = env.step(actions)
            lines += ["", f"--- turn {number}", _shown("action", actions), _shown("observation", observations)]
            lines += [_shown("reward", rewards), _shown("terminated", terminations), _shown("truncated", truncations)]
            lines += [_shown("info", infos), f"agents left: {env.agents}"]
        assert not env.agents, f"the script of {env_id} plays the episode to its end"
        lines += ["", "--- state", env.state()]
    return "\n".join(lines) + "\n"


def _shown(name: str, values: dict[str, Any]) -> str:
    return "\n".join(f"{name} of {agent}: {_plain(value)}" for agent, value in values.items())


def _plain(value: Any) -> str:
    """Numbers to nine places, which every platform agrees on; text as it is."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(value[key])}" for key in value) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return f"{value:.9f}" if isinstance(value, float) else str(value)


def path_of(env_id: str) -> Path:
    return FOLDER / f"{env_id.replace('/', '-')}.txt"


def test_every_id_has_a_golden_transcript_and_every_transcript_an_id():
    assert set(PLAYS) == set(BUILT_IN)
    assert {path.name for path in FOLDER.glob("*.txt")} == {path_of(env_id).name for env_id in BUILT_IN}


@pytest.mark.parametrize("env_id", sorted(PLAYS))
def test_the_golden_transcript_is_played_to_the_letter(env_id):
    golden = path_of(env_id).read_bytes().decode("utf-8")
    assert record(env_id) == golden, f"results of {env_id} have changed; if that is meant, see the head of this file"


@pytest.mark.parametrize("env_id", ["writing/arxiv-v0", "writing/tldr-v0"])
def test_the_scripts_reach_every_term(env_id):
    """A transcript of zeros would guard nothing."""
    (keywords, reset, turns), *_ = PLAYS[env_id]
    env = make(env_id, **{**keywords, "grounding": 1.0})
    env.reset(**reset)
    *_, infos = env.step(dict(zip(env.agents, turns[-1], strict=True)))
    assert all(value > 0 for value in infos[env.possible_agents[0]]["terms"].values()), infos


@pytest.mark.parametrize("env_id", [env_id for env_id in PLAYS if env_id.startswith("coding/")])
def test_the_scripts_of_coding_tasks_reach_the_maximum(env_id):
    assert "score: 4.000000000, turn: 1, solved: 1" in path_of(env_id).read_text(encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(PLAYS):
        path_of(name).write_bytes(record(name).encode("utf-8"))
        print(f"recorded {path_of(name)}")

"""One episode of each protocol, letter for letter. A difference means that results may change.

Record anew where that is meant, and read the difference before you commit it::

    python tests/envs/test_wrappers_golden.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_golden import LONG, SHORT
from test_golden import _shown as shown

from llm_marl_envs import make
from llm_marl_envs.wrappers import PROTOCOLS, wrap

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "wrappers"
TLDR = {"summarizer": SHORT, "elaborator": LONG}

#: For each protocol: its arguments, the environment, and what is written (agent -> texts in order).
PLAYS = {
    "parallel": ({}, ("writing/tldr-v0", {}), {a: [t] for a, t in TLDR.items()}),
    "sequential": (
        {"order": ["elaborator", "summarizer"]},
        ("writing/tldr-v0", {"num_turns": 2, "history": "full", "feedback": "signals"}),
        {"elaborator": [LONG, LONG], "summarizer": ["Eggs.", SHORT]},
    ),
    "discussion": (
        {"rounds": 2, "message_cost": 0.01, "topology": {"summarizer": ["elaborator"], "elaborator": []}},
        ("writing/tldr-v0", {}),
        {"summarizer": [SHORT], "elaborator": ["I shall write about the eggs.", "And the teabags.", LONG]},
    ),
    "single": (
        {},
        ("writing/tldr-v0", {"num_turns": 2}),
        {"solo": [f"<summarizer>{SHORT}", f"<elaborator>\n{LONG}\n</elaborator>\n<Summarizer> {SHORT} </summarizer>"]},
    ),
}


def record(protocol: str) -> str:
    arguments, (env_id, keywords), texts = PLAYS[protocol]
    env = wrap(make(env_id, **keywords), protocol, **arguments)
    rest = {agent: iter(written) for agent, written in texts.items()}
    observations, infos = env.reset(options={"index": 0})
    lines = [f"Golden transcript of {protocol}. Recorded by tests/envs/test_wrappers_golden.py: do not edit."]
    lines += [
        "",
        f"=== wrap(make({env_id!r}, **{keywords}), {protocol!r}, **{arguments}), reset(options={{'index': 0}})",
    ]
    lines += [shown("observation", observations), shown("info", infos)]
    number = 0
    while env.agents:
        number += 1
        actions = {a: next(rest[a]) for a in env.agents if infos[a].get("acts", 1)}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        lines += ["", f"--- step {number}", shown("action", actions), shown("observation", observations)]
        lines += [shown("reward", rewards), shown("terminated", terminations), shown("truncated", truncations)]
        lines += [shown("info", infos), f"agents left: {env.agents}"]
    assert not any(list(left) for left in rest.values()), "the script is played to its end"
    return "\n".join([*lines, "", "--- state", env.state()]) + "\n"


def test_every_protocol_has_a_golden_transcript():
    assert set(PLAYS) == set(PROTOCOLS)
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PROTOCOLS)


@pytest.mark.parametrize("protocol", sorted(PLAYS))
def test_the_golden_transcript_is_played_to_the_letter(protocol):
    golden = (FOLDER / f"{protocol}.txt").read_bytes().decode("utf-8")
    assert record(protocol) == golden, (
        f"results of {protocol} have changed; if that is meant, see the head of this file"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sorted(PLAYS):
        (FOLDER / f"{name}.txt").write_bytes(record(name).encode("utf-8"))
        print(f"recorded {FOLDER / name}.txt")

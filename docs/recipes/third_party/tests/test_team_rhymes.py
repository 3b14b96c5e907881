import json

import numpy as np
import pytest
from team_rhymes.couplet import partners_end
from team_rhymes.ranked import ranks

from llm_marl_baselines import cli
from llm_marl_envs import check_env, make


def test_it_keeps_the_contract():
    check_env(make("rhymes/couplet-v0", num_turns=2, feedback=partners_end))


@pytest.mark.parametrize(
    "opener, closer, terms",
    [
        ("Rain falls on the roof", "and leaks from above, woof!", {"rhyme": 1.0, "fresh": 0.5}),
        ("the same line", "the same line", {"rhyme": 1.0, "fresh": 0.0}),
        ("A CAT", "a dog", {"rhyme": 0.0, "fresh": 0.0}),
        ("", "...", {"rhyme": 0.0, "fresh": 0.0}),  # nothing rhymes with nothing
    ],
)
def test_what_lines_earn(opener, closer, terms):
    env = make("rhymes/couplet-v0")
    env.reset(seed=0)
    _, rewards, *_, infos = env.step({"opener": opener, "closer": closer})
    assert infos["opener"]["terms"] == terms and rewards["opener"] == rewards["closer"] == sum(terms.values())


def test_feedback_tells_how_the_other_line_ended():
    env = make("rhymes/couplet-v0", num_turns=2, feedback="team_rhymes.couplet:partners_end")
    env.reset(seed=0)
    seen = env.step({"opener": "a cat", "closer": "a dog."})[0]
    assert "(closer: 'g')" in seen["opener"] and "(opener: 't')" in seen["closer"]


def test_ranks_are_those_worked_out_by_hand():
    returns, group = np.array([0.0, 1.0, 1.0, 3.0, 9.0]), np.array([5, 5, 5, 5, 6])
    assert ranks(returns, group).tolist() == [-1.0, 0.0, 0.0, 1.0, 0.0]


def test_it_learns(tmp_path):
    args = (
        "train team_rhymes.ranked:Ranked --env rhymes/couplet-v0 --env_args.longest 2 --model tiny --seed 1 --steps 20"
    )
    settings = ["--algorithm.group_size", "8", "--trackers", "[]", "--output", str(tmp_path / "run")]
    assert cli.main([*args.split(), *settings]) == 0
    records = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    before, after = (r["score"] for r in records if r["phase"] == "eval")
    assert before < 0.5 and after > 1.0

"""Every feedback mode, for every task."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coding_rows import keywords
from toys import EndlessTask, endless, play, toy

from llm_marl_envs import Score, make
from llm_marl_envs.errors import ConfigError, UnknownNameError
from llm_marl_envs.feedback import MODES
from llm_marl_envs.registry import BUILT_IN

REQUEST = "Write your response again and make it better. Answer with the whole new response only."
ACTION = {"left": "L", "right": "R"}
ARGUMENTS = {"expert": {"feedback_kwargs": {"propose": "toys:advise"}}}
EXPECTED = {
    "revise": REQUEST,
    "signals": f"Joint score of the last responses: 1.50\n- ell: 1.00\n- arr: 0.50\n{REQUEST}",
    "diagnosis": (
        "Joint score of the last responses: 1.50\nShort of the maximum:\n- arr: 0.50 of 2.00\n"
        f"At the maximum: ell\n{REQUEST}"
    ),
    "expert": f"An expert proposes this edit of your response:\nRRRR\n\n{REQUEST}",
}


def test_each_mode_of_the_table_has_its_words_here():
    assert set(EXPECTED) == set(MODES)


@pytest.mark.parametrize("mode, expected", EXPECTED.items())
def test_the_words_of_each_mode(mode, expected):
    env = toy(num_turns=2, feedback=mode, **ARGUMENTS.get(mode, {}))
    assert play(env, [ACTION])[1][0] == {"left": expected, "right": expected}


def test_diagnosis_names_the_worst_first_and_reports_what_has_no_maximum():
    class Partly(EndlessTask):
        max_terms = {"small": 1.0, "large": 5.0}

        def score(self, row, responses):
            return Score.of({"small": 0.5, "large": 1.0, "bonus": 0.25})

    told = play(toy(Partly(), num_turns=2, feedback="diagnosis"), [ACTION])[1][0]["left"]
    assert told.splitlines()[1:-1] == [
        "Short of the maximum:", "- large: 1.00 of 5.00", "- small: 0.50 of 1.00", "- bonus: 0.25"
    ]  # fmt: skip


def test_a_task_adds_its_remarks_to_a_mode():
    class Remarking(EndlessTask):
        def score(self, row, responses):
            score = super().score(row, responses)
            return replace(score, remarks={"diagnosis": ("one", "two"), "signals": ("- three: 3",)})

    def last_lines(mode, count):
        return play(toy(Remarking(), num_turns=2, feedback=mode), [ACTION])[1][0]["left"].splitlines()[-count:]

    assert last_lines("diagnosis", 4) == ["What was found:", "one", "two", REQUEST]
    assert last_lines("signals", 3) == ["- arr: 0.50", "- three: 3", REQUEST]
    assert play(toy(Remarking(), num_turns=2), [ACTION])[1][0]["left"] == REQUEST


def test_diagnosis_knows_weighted_maxima():
    told = play(toy(num_turns=2, feedback="diagnosis", weights={"arr": 2.0}), [ACTION])[1][0]["left"]
    assert "- arr: 1.00 of 4.00" in told


def test_a_function_and_its_name_are_modes_too():
    def count(row, transcript, score, agent):
        assert transcript[-1].score is score and row["id"] == "r1"
        return f"{agent} {transcript[-1].actions[agent]} {len(transcript)}"

    env = endless(num_turns=3, feedback=count)
    steps = play(env, [ACTION, {"left": "x", "right": "y"}], options={"id": "r1"})
    assert steps[1][0] == {"left": "left L 1", "right": "right R 1"} and steps[2][0]["right"] == "right y 2"
    assert play(endless(num_turns=2, feedback="toys:shout"), [ACTION])[1][0]["left"] == "LEFT! 1 turns, 1.5"


def test_wrong_modes_are_refused():
    with pytest.raises(UnknownNameError, match="Unknown feedback mode 'signal'. Did you mean 'signals'"):
        toy(feedback="signal")
    env = toy(num_turns=2, feedback=lambda row, transcript, score, agent: 3)
    with pytest.raises(ConfigError, match="returned int for 'left'; it must return str"):
        play(env, [ACTION])


@pytest.mark.parametrize("env_id", BUILT_IN)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("share", [False, True])
def test_every_environment_plays_with_every_mode_for_several_turns(env_id, mode, share):
    turns = 2 if "two-turn" in env_id else 3
    given = {**keywords(env_id), **ARGUMENTS.get(mode, {})}
    env = make(env_id, num_turns=turns, feedback=mode, share_responses=share, **given)
    observations, _ = env.reset(seed=1)
    played = 0
    while env.agents:
        observations, *_ = env.step({agent: "ABCD"[i] for i, agent in enumerate(env.agents)})
        played += 1
        if env.agents:
            assert all(o.endswith(REQUEST) for o in observations.values())
            first, second = env.possible_agents[:2]
            assert (f"The last response of {second}:\nB" in observations[first]) is share
    assert played == turns

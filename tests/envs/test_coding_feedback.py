"""What the agents of coding tasks are told by each mode, and the mode that asks an expert."""

from __future__ import annotations

import pickle
import threading
import time

import pytest
from coding_rows import ALMOST, AUX, HUMANEVAL_ROWS, NOTHING, SOLVED, SQUARES
from toys import play, toy

from llm_marl_envs import make
from llm_marl_envs.coding import humaneval
from llm_marl_envs.errors import ConfigError, MissingDependencyError, UnknownNameError
from llm_marl_envs.feedback import resolve
from llm_marl_envs.feedback.expert import Expert

REQUEST = "Write your response again and make it better. Answer with the whole new response only."


def told(actions, agent="main", **kwargs):
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_turns=2, **kwargs)
    env.reset(options={"index": 0})
    return env.step(actions)[0][agent]


def test_revise_tells_nothing():
    assert told(ALMOST, feedback="revise") == REQUEST


def test_signals_are_numbers():
    assert told(ALMOST, feedback="signals", visible_tests=2) == (
        "Joint score of the last responses: 3.50\n"
        "- helper_defined: 0.40\n- main_defined: 0.60\n- parses: 0.50\n- tests: 0.50\n- uses_helper: 0.50\n"
        "- not_thin: 1.00\n- ignored: 0.00\n"
        "- tests passed: 2 of 4\n- visible test 1: passed\n- visible test 2: not passed\n" + REQUEST
    )


def test_diagnosis_of_a_program_that_nearly_works():
    assert told(ALMOST, feedback="diagnosis", visible_tests=2) == (
        "Joint score of the last responses: 3.50\n"
        "Short of the maximum:\n- tests: 0.50 of 1.00\n"
        "At the maximum: helper_defined, main_defined, parses, uses_helper, not_thin, ignored\n"
        "What was found:\n"
        "- helper: aux is defined\n"
        "- main: sum_of_squares is defined\n"
        "- tests passed: 2 of 4\n"
        "- assert candidate([7071]) == 49999041, 'a large number': does not hold\n"
        "  (candidate is sum_of_squares)\n"
        "- sum_of_squares uses aux\n" + REQUEST
    )


def test_diagnosis_of_errors():
    broken = {"helper": AUX, "main": "```python\ndef sum_of_squares(numbers):\n    return sum(\n```"}
    assert "- main: SyntaxError in line 2, column 15 of the code" in told(broken, feedback="diagnosis")
    both = told(NOTHING, "helper", feedback="diagnosis")
    assert "- helper: no function aux is defined" in both and "- tests passed: 0 of 4" in both
    raises = {"helper": AUX, "main": "def sum_of_squares(numbers):\n    return aux(numbers['x'])"}
    assert "- assert candidate([3, 4]) == 25: raised TypeError in line 2 of sum_of_squares" in told(
        raises, feedback="diagnosis"
    )
    loading = {"helper": AUX, "main": "import nowhere\n\ndef sum_of_squares(numbers):\n    return 0"}
    assert "- It raised ModuleNotFoundError in line 1 of sum_of_squares while it was loaded." in told(
        loading, feedback="diagnosis"
    )


def test_both_agents_are_told_the_same_and_history_holds_it():
    env = humaneval.parallel_env(data=HUMANEVAL_ROWS, num_turns=3, feedback="diagnosis", history="full")
    env.reset(options={"index": 0})
    observations = env.step(ALMOST)[0]
    for agent, action in ALMOST.items():
        assert observations[agent].startswith(env.task.prompt(env.row, agent)) and action in observations[agent]
        assert observations[agent].endswith(told(ALMOST, feedback="diagnosis"))


# -- expert -----------------------------------------------------------------------------------------------------------


class Recorder:
    """An expert that numbers its answers."""

    def __init__(self):
        self.questions = []

    def __call__(self, question):
        self.questions.append(question)
        return f"edit {len(self.questions)}"


def advise(question):
    return f"{len(question)} characters"


def expert(propose, **kwargs):
    env = humaneval.parallel_env(
        data=HUMANEVAL_ROWS, num_turns=3, feedback="expert", feedback_kwargs={"propose": propose, **kwargs}
    )
    env.reset(options={"index": 0})
    return env


def test_the_experts_edit_is_told():
    recorder = Recorder()
    observations = expert(recorder).step(ALMOST)[0]
    assert observations["helper"] == f"An expert proposes this edit of your response:\nedit 1\n\n{REQUEST}"
    assert "edit 2" in observations["main"]
    question = recorder.questions[1]
    assert question.startswith("Agents solve a task together. The agent 'main' was told:\nSolve this problem")
    assert all(f"The last response of {agent!r}:\n{text}" in question for agent, text in ALMOST.items())
    assert "Short of the maximum:" in question and "- tests passed: 2 of 4" in question and REQUEST not in question
    assert question.endswith("edited version of the response of 'main'. Answer with the edited response only.")
    assert "49999041" not in question and SQUARES["canonical_solution"].strip() not in question


def test_answers_are_kept_by_transcript():
    recorder = Recorder()
    env = expert(recorder)
    twin = env.clone()
    assert env.step(ALMOST)[0] == twin.step(ALMOST)[0] and len(recorder.questions) == 2
    other = env.clone()
    assert other.step(NOTHING)[0] != env.step(ALMOST)[0] and len(recorder.questions) == 6
    env.reset(options={"index": 0})
    env.step(ALMOST)
    assert len(recorder.questions) == 6
    env.reset(options={"index": 1})  # the same answers to another problem
    env.step(ALMOST)
    assert len(recorder.questions) == 8


def test_only_the_newest_answers_are_kept():
    recorder = Recorder()
    env = expert(recorder, keep=2)
    for actions, asked in ((ALMOST, 2), (ALMOST, 2), (NOTHING, 4), (ALMOST, 6)):
        env.reset(options={"index": 0})
        env.step(actions)
        assert len(recorder.questions) == asked


def first_told(env):
    return play(env, [{"left": "L", "right": ""}], options={"index": 0})[1][0]


def test_one_transcript_is_asked_about_once_by_many_threads():
    calls, found = [], []

    def slow(question):
        calls.append(question)
        time.sleep(0.05)
        return "edit"

    env = toy(num_turns=2, feedback=Expert(slow))
    twins = [env.clone() for _ in range(8)]
    threads = [threading.Thread(target=lambda twin: found.append(first_told(twin)), args=[twin]) for twin in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2 and len(found) == 8 and all(observations == found[0] for observations in found)


def test_an_expert_pickles_with_its_answers():
    mode = Expert(advise, keep=3)
    observations = first_told(toy(num_turns=2, feedback=mode))
    copy = pickle.loads(pickle.dumps(mode))
    copy._propose = None  # it is not asked again
    assert first_told(toy(num_turns=2, feedback=copy)) == observations


def test_the_expert_by_name():
    env = make("writing/tldr-v0", num_turns=2, feedback="expert", feedback_kwargs={"propose": f"{__name__}:advise"})
    env.reset(seed=0)
    assert "characters" in env.step({"summarizer": "a", "elaborator": "b"})[0]["elaborator"]


def test_what_an_expert_may_not_be():
    with pytest.raises(
        ConfigError, match="feedback='expert' with feedback_kwargs={}: missing a required argument: 'propose'"
    ):
        toy(feedback="expert")
    with pytest.raises(ConfigError, match="unexpected keyword argument 'prose'"):
        toy(feedback="expert", feedback_kwargs={"propose": advise, "prose": 1})
    with pytest.raises(ConfigError, match="propose must be a function"):
        toy(feedback="expert", feedback_kwargs={"propose": 3})
    with pytest.raises(ConfigError, match="keep must be"):
        toy(feedback="expert", feedback_kwargs={"propose": advise, "keep": 0})
    with pytest.raises(UnknownNameError, match="nowhere"):
        toy(feedback="expert", feedback_kwargs={"propose": "nowhere:ask"})
    with pytest.raises(ConfigError, match="The expert returned int; it must return str"):
        play(toy(num_turns=2, feedback="expert", feedback_kwargs={"propose": len}), [{"left": "L", "right": ""}])
    with pytest.raises(ConfigError, match="'signals' is a function and takes no feedback_kwargs"):
        toy(feedback="signals", feedback_kwargs={"loud": True})


def test_what_an_expert_raises_ends_the_step_and_can_be_tried_again():
    answers = iter([MissingDependencyError("no network today"), "edit", "edit"])

    def flaky(question):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    env = toy(num_turns=2, feedback="expert", feedback_kwargs={"propose": flaky})
    env.reset(seed=0)
    with pytest.raises(MissingDependencyError, match="no network today"):
        env.step({"left": "L", "right": ""})
    assert env.turns == () and "edit" in env.step({"left": "L", "right": ""})[0]["left"]


def test_a_class_of_ones_own_is_a_mode():
    class Loud:
        def __init__(self, words):
            self.words = words

        def __call__(self, row, transcript, score, agent):
            return self.words.upper()

    assert resolve(Loud, {"words": "again"})({}, (), None, "a") == "AGAIN"
    assert resolve(Loud("more"))({}, (), None, "a") == "MORE"


def test_solved_episodes_need_no_feedback():
    env = expert(Recorder())
    observations, *_ = env.step(SOLVED)
    assert not env.agents and observations["main"] == "The episode is over."

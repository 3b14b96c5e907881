"""The reward of the coding tasks, worked out by hand from hand-made verdicts: nothing is run here."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_marl_envs.coding import remarks
from llm_marl_envs.coding.rewards import MAX_TERMS, POINTS, max_parts, score_verdict
from llm_marl_envs.sandbox.programs import PartFacts, Structure, TestResult, UseFacts, Verdict

ONE = {"helper": "aux"}
THREE = {"helper_1": "aux_1", "helper_2": "aux_2", "helper_3": "aux_3"}
USED = UseFacts(called=True)
SYNTAX = {"type": "SyntaxError", "line": 3, "column": 7, "message": "invalid syntax"}
TERMS = ["helper_defined", "main_defined", "parses", "tests", "uses_helper", "not_thin", "ignored"]


def part(name="aux", defined=True, returns=True, error=None):
    return PartFacts(name, "", defined, returns, error)


def results_of(passed, total, called=("aux",), outcome="failed"):
    """The first so many pass, and the helpers named are called in all of them."""
    return tuple(
        TestResult(f"assert candidate({i}) == {i}", "passed" if i < passed else outcome, "", tuple(called))
        for i in range(total)
    )


def verdict(results=(), *, main=None, helpers=None, together=True, uses=None, kind="ok", message=""):
    structure = Structure(
        main=main or part("f"),
        helpers=tuple([part()] if helpers is None else helpers),
        together=together,
        uses={"aux": USED} if uses is None else uses,
    )
    return Verdict(kind, message, structure, tuple(results), isolation="strict")


def score(*args, helpers_of=ONE, visible=slice(0, 1), **kwargs):
    return score_verdict(verdict(*args, **kwargs), helpers_of, "main", visible)


def earned(*args, **kwargs):
    found = score(*args, **kwargs)
    assert list(found.terms) == TERMS and found.total == pytest.approx(sum(found.terms.values()))
    return [pytest.approx(value) for value in found.terms.values()]


# -- one helper -----------------------------------------------------------------------------------------------------


def test_the_constants():
    assert POINTS == dict(zip(TERMS, [0.4, 0.6, 0.5, 1.0, 0.5, 1.0, -0.5], strict=True))
    assert MAX_TERMS == dict(zip(TERMS, [0.4, 0.6, 0.5, 1.0, 0.5, 1.0, 0.0], strict=True))
    assert sum(MAX_TERMS.values()) == 4.0


def test_everything_earns_4_and_is_solved():
    found = score(results_of(5, 5))
    assert found.total == 4.0 and found.solved
    assert earned(results_of(5, 5)) == [0.4, 0.6, 0.5, 1, 0.5, 1, 0]


@pytest.mark.parametrize(
    ("helper", "expected"),
    [(part(), 0.4), (part(returns=False), 0), (part(defined=False, returns=False), 0), (part(error=SYNTAX), 0.4)],
)
def test_level_1_helper(helper, expected):
    # No test passes, so that nothing but the definitions and the syntax pays.
    assert earned(results_of(0, 4), helpers=[helper])[0] == expected


@pytest.mark.parametrize("main", [part("f", returns=False), part("f", False, False), part("f", False, False, SYNTAX)])
def test_level_1_without_an_entry_point_it_stops(main):
    assert earned(results_of(4, 4), main=main) == [0.4, 0, 0, 0, 0, 0, 0]
    assert earned(results_of(4, 4), main=main, helpers=[part(defined=False)]) == [0] * 7


def test_level_2_parts_that_do_not_parse_stop():
    helpers = [part(defined=False, returns=False, error=SYNTAX)]
    found = earned(results_of(0, 4, outcome="not_run"), helpers=helpers, together=False, kind="syntax_error")
    assert found == [0, 0.6, 0, 0, 0, 0, 0]
    assert earned(results_of(4, 4), together=False) == [0.4, 0.6, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("why", [{"together": False}, {"main": part("f", returns=False)}])
def test_results_that_do_not_count_are_not_told(why):
    found = score(results_of(3, 4, outcome="timeout"), visible=slice(None), **why).details
    assert (found["passed"], found["total"], found["timeouts"]) == (0, 4, 0)
    assert [test["outcome"] for test in found["visible"]] == ["not_run"] * 4
    assert found["helper_called"] == {"aux": False} and found["use"] == {"aux": "unknown"}


@pytest.mark.parametrize("passed", range(8))
def test_level_3_is_the_fraction_of_tests(passed):
    assert earned(results_of(passed, 7), uses={"aux": UseFacts()}) == [0.4, 0.6, 0.5, passed / 7, 0, 0, 0]


@pytest.mark.parametrize("kind", ["load_error", "missing", "timeout", "memory", "crash", "checker_limit"])
def test_a_program_that_does_not_load_keeps_its_structure(kind):
    assert earned(results_of(0, 4, (), "not_run"), kind=kind) == [0.4, 0.6, 0.5, 0, 0, 0, 0]


def test_level_3_one_test_is_enough_for_the_terms_about_the_helper_and_none_is_not():
    assert earned(results_of(1, 4)) == [0.4, 0.6, 0.5, 0.25, 0.5, 1, 0]
    assert earned(results_of(0, 4)) == [0.4, 0.6, 0.5, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("use", "expected", "word"),
    [
        (UseFacts(called=True), [0.5, 1, 0], "used"),
        (UseFacts(called=True, thin=True), [0.5, 0, 0], "thin"),
        (UseFacts(called=True, ignored=True), [0.5, 1, -0.5], "ignored"),
        (UseFacts(called=True, thin=True, ignored=True), [0.5, 0, -0.5], "ignored"),
        (UseFacts(called=True, redefined=True), [0, 0, 0], "redefined"),
        (UseFacts(called=False), [0, 0, 0], "not_called"),
        (UseFacts(called=False, thin=True, ignored=True), [0, 0, 0], "not_called"),
        (UseFacts(called=False, redefined=True), [0, 0, 0], "redefined"),
    ],
)
def test_level_3_use_of_the_helper(use, expected, word):
    assert earned(results_of(2, 4), uses={"aux": use}) == [0.4, 0.6, 0.5, 0.5, *expected]
    assert score(results_of(2, 4), uses={"aux": use}).details["use"] == {"aux": word}


def test_without_facts_about_it_a_helper_is_not_used():
    found = score(results_of(2, 4), uses={})
    assert found.total == 2.0 and found.details["use"] == {"aux": "not_called"}


def test_a_helper_must_be_called_while_a_test_runs_that_passes():
    assert earned(results_of(3, 4, called=()))[4:] == [0, 0, 0]
    assert score(results_of(3, 4, called=())).details["use"] == {"aux": "not_reached"}
    only_in_a_failing_test = (
        *results_of(3, 3, called=()),
        TestResult("assert candidate(9) == 9", "failed", "", ("aux",)),
    )
    assert earned(only_in_a_failing_test)[4:] == [0, 0, 0]
    assert score(only_in_a_failing_test).details["helper_called"] == {"aux": False}
    in_one_that_passes = (TestResult("assert f(0) == 0", "passed", "", ("aux",)), *results_of(2, 3, called=()))
    assert earned(in_one_that_passes)[4:] == [0.5, 1, 0]


@pytest.mark.parametrize("helper", [part(defined=False, returns=False), part(returns=False)])
def test_a_helper_that_is_not_whole_earns_nothing_by_its_use(helper):
    found = score(results_of(4, 4), helpers=[helper])
    assert found.total == pytest.approx(2.1) and found.details["use"] == {"aux": "missing"} and not found.solved


def test_ignoring_the_helper_costs_no_more_than_calling_it_gives():
    ignored = score(results_of(4, 4), uses={"aux": UseFacts(called=True, ignored=True)})
    assert ignored.total == 3.5 and not ignored.solved
    assert score(results_of(4, 4), uses={"aux": UseFacts(called=False, ignored=True)}).total == 2.5


# -- several helpers ------------------------------------------------------------------------------------------------


def test_terms_of_several_helpers_are_means():
    helpers = [part("aux_1"), part("aux_2"), part("aux_3", returns=False)]
    uses = {"aux_1": USED, "aux_2": UseFacts(called=True, thin=True), "aux_3": USED}
    results = results_of(3, 4, called=("aux_1", "aux_2", "aux_3"))
    found = score(results, helpers=helpers, uses=uses, helpers_of=THREE)
    assert earned(results, helpers=helpers, uses=uses, helpers_of=THREE) == [
        0.4 * 2 / 3, 0.6, 0.5, 0.75, 0.5 * 2 / 3, 1 / 3, 0
    ]  # fmt: skip
    assert found.details["use"] == {"aux_1": "used", "aux_2": "thin", "aux_3": "missing"}
    # By hand: each helper has a third of its own definition, and a third of half of 1.25; then halves of its own use.
    assert found.per_agent["helper_1"] == pytest.approx((0.4 + 1.25 / 2 + 1.5 / 2) / 3)
    assert found.per_agent["helper_2"] == pytest.approx((0.4 + 1.25 / 2 + 0.5 / 2) / 3)
    assert found.per_agent["helper_3"] == pytest.approx((0.0 + 1.25 / 2) / 3)
    assert found.per_agent["main"] == pytest.approx(0.6 + 1.25 / 2 + (1.5 + 0.5) / 6)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_the_maximum_is_4_for_any_number_of_helpers(count):
    names = {f"helper_{i}": f"aux_{i}" for i in range(count)}
    functions = list(names.values())
    helpers, uses = [part(name) for name in functions], dict.fromkeys(functions, USED)
    found = score(results_of(4, 4, called=functions), helpers=helpers, uses=uses, helpers_of=names)
    assert found.total == pytest.approx(4.0) and found.solved
    best = max_parts(names, "main")
    assert found.per_agent == {agent: pytest.approx(best[agent]) for agent in [*names, "main"]}
    assert sum(best.values()) == pytest.approx(4.0) and best["main"] == pytest.approx(2.1)
    # One that is not called among them is enough not to be solved.
    found = score(results_of(4, 4, called=functions[1:]), helpers=helpers, uses=uses, helpers_of=names)
    assert found.total == pytest.approx(4.0 - 1.5 / count) and not found.solved


# -- parts of one helper and main -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "helper", "main"),
    [
        ({}, 0.4 + 1.5, 0.6 + 1.5),
        ({"uses": {"aux": UseFacts()}}, 0.4 + 0.75, 0.6 + 0.75),
        ({"uses": {"aux": UseFacts(called=True, ignored=True)}}, 0.4 + 1.25, 0.6 + 1.25),
        ({"helpers": [part(defined=False)]}, 0.75, 0.6 + 0.75),
        ({"main": part("f", defined=False)}, 0.4, 0.0),
        ({"together": False}, 0.4, 0.6),
    ],
)
def test_own_parts(arguments, helper, main):
    assert score(results_of(4, 4), **arguments).per_agent == {
        "helper": pytest.approx(helper),
        "main": pytest.approx(main),
    }


# -- details and remarks --------------------------------------------------------------------------------------------

MIXED = (
    TestResult("assert candidate(1) == 11", "passed", "", ("aux",)),
    TestResult("assert candidate(2) == 22", "failed", "the last call returned 404", ("aux",)),
    TestResult("assert candidate(3) == 33", "error", "ValueError: secret words", ()),
    TestResult("assert candidate(4) == 44", "timeout", "more than 2 s", ()),
    TestResult("assert candidate(5) == 55", "error", "Hidden33: secret words", ()),
    TestResult("assert candidate(6) == 66", "unsupported", "a value of type secret", ()),
)


def test_details():
    found = score(MIXED, visible=slice(1, 3), message="")
    assert found.details == {
        "kind": "ok",
        "error": "",
        "passed": 1,
        "total": 6,
        "timeouts": 1,
        "parts": {
            "helper": {"function": "aux", "defined": True, "returns": True, "error": None},
            "main": {"function": "f", "defined": True, "returns": True, "error": None},
        },
        "helper_called": {"aux": True},
        "use": {"aux": "used"},
        "visible": [
            {"test": "assert candidate(2) == 22", "outcome": "failed", "error": ""},
            {"test": "assert candidate(3) == 33", "outcome": "error", "error": "ValueError"},
        ],
        "isolation": "strict",
    }


def test_messages_are_cut_down_to_what_python_names():
    visible = score(MIXED, visible=slice(None)).details["visible"]
    assert [test["error"] for test in visible] == ["", "", "ValueError", "", "Exception", ""]
    assert "secret" not in json.dumps(visible) and "404" not in json.dumps(visible)
    for message, error in [
        ("NameError: name 'x' is not defined (line 1 of aux)", "NameError in line 1 of aux"),
        ("NameError: name 'x' is not defined (line 7071 of aux)", "NameError"),
        ("NameError: name 'x' is not defined (line 0 of f)", "NameError"),
        ("NameError: name 'x' is not defined (line 1 of secret)", "NameError"),
        ("Secret_name: text (line 1 of f)", "Exception in line 1 of f"),
        ("NameError: name 'x' is not defined", "NameError"),
        ("Secret_name: text", "Exception"),
        ("print: no exception", "Exception"),
        ("", "Exception"),
        ("SystemExit", "SystemExit"),
    ]:
        assert score(results_of(0, 1), kind="load_error", message=message).details["error"] == error
    assert score(results_of(0, 1), kind="crash", message="NameError: x").details["error"] == ""


def test_a_syntax_error_is_told_by_type_line_and_column():
    broken = part("f", False, False, SYNTAX)
    found = score(
        results_of(0, 2, (), "not_run"), main=broken, together=False, kind="syntax_error", message="invalid syntax"
    )
    assert found.details["parts"]["main"]["error"] == {"type": "SyntaxError", "line": 3, "column": 7}
    assert "- main: SyntaxError in line 3, column 7 of the code" in remarks.diagnosis(found.details)
    assert "invalid" not in repr(found)


@pytest.mark.parametrize(
    ("visible", "shown"),
    [(slice(0, 0), []), (slice(0, 1), [0]), (slice(0, 99), [0, 1, 2, 3, 4, 5]), (slice(-2, None), [4, 5]), (slice(None), [0, 1, 2, 3, 4, 5])],
)  # fmt: skip
def test_only_visible_tests_are_told(visible, shown):
    found = score(MIXED, visible=visible)
    said = json.dumps([found.details, remarks.by_mode(found.details)])
    for i, test in enumerate(MIXED):
        assert (test.source in said) is (i in shown)
    assert found.details["passed"] == 1 and found.details["total"] == 6


def test_diagnosis():
    assert remarks.diagnosis(score(MIXED, visible=slice(0, 4)).details) == [
        "- helper: aux is defined",
        "- main: f is defined",
        "- tests passed: 1 of 6 (1 ran out of time)",
        "- assert candidate(2) == 22: does not hold",
        "- assert candidate(3) == 33: raised ValueError",
        "- assert candidate(4) == 44: ran out of time",
        "  (candidate is f)",
        "- f uses aux",
    ]
    found = score(results_of(0, 1, (), "not_run"), helpers=[part(defined=False)], main=part("f", returns=False))
    assert remarks.diagnosis(found.details)[:2] == [
        "- helper: no function aux is defined",
        "- main: f is defined, and returns nothing",
    ]


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("load_error", "ZeroDivisionError: by zero", "raised ZeroDivisionError while it was loaded"),
        ("missing", "", "held no function of the wanted name"),
        ("timeout", "", "ran out of time while it was loaded"),
        ("memory", "", "ran out of memory while it was loaded"),
        ("crash", "signal 9", "Its process died"),
        ("protocol_error", "", "what is no result"),
        ("checker_limit", "", "could not be compared"),
    ],
)
def test_diagnosis_tells_why_a_program_did_not_load(kind, message, words):
    found = score(results_of(0, 2, (), "not_run"), kind=kind, message=message)
    assert any(words in line for line in remarks.diagnosis(found.details))


@pytest.mark.parametrize(
    ("use", "called", "words"),
    [
        (UseFacts(called=True), True, "- f uses aux"),
        (UseFacts(called=True, thin=True), True, "- f only passes on what aux returns"),
        (UseFacts(called=True, ignored=True), True, "- f calls aux and throws the result away"),
        (UseFacts(called=True, redefined=True), False, "defines that name itself"),
        (UseFacts(), False, "- f does not call aux"),
        (UseFacts(called=True), False, "made none in a test that passed"),
    ],
)
def test_diagnosis_tells_how_the_helper_is_used(use, called, words):
    found = score(results_of(1, 2, ("aux",) if called else ()), uses={"aux": use})
    assert words in remarks.diagnosis(found.details)[-1]


def test_a_long_test_is_clipped_and_signals_are_short():
    long = TestResult(f"assert candidate({[1] * 1000}) == 7", "failed")
    told = remarks.diagnosis(score([long]).details)
    assert max(map(len, told)) < 450 and any(line.endswith("[...]: does not hold") for line in told)
    assert remarks.signals(score(MIXED, visible=slice(0, 2)).details) == [
        "- tests passed: 1 of 6",
        "- visible test 1: passed",
        "- visible test 2: not passed",
    ]


# -- properties -----------------------------------------------------------------------------------------------------

flags = st.booleans()
facts = st.builds(PartFacts, st.just("f"), st.text(max_size=5), flags, flags, st.sampled_from([None, SYNTAX]))
outcomes = st.sampled_from(["passed", "passed", "failed", "error", "timeout", "unreached", "not_run"])


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.data(), st.integers(1, 4))
def test_properties(data, count):
    names = {f"helper_{i}": f"aux_{i}" for i in range(count)}
    functions = list(names.values())
    results = data.draw(
        st.lists(st.builds(TestResult, st.text(), outcomes, st.text(), st.lists(st.sampled_from(functions)).map(tuple)), min_size=1, max_size=6)
    )  # fmt: skip
    found = score_verdict(
        Verdict(
            data.draw(st.sampled_from(["ok", "load_error", "crash"])),
            data.draw(st.text()),
            Structure(
                data.draw(facts),
                tuple(data.draw(st.builds(PartFacts, st.just(name), st.text(), flags, flags)) for name in functions),
                data.draw(flags),
                {name: data.draw(st.builds(UseFacts, flags, flags, flags, flags)) for name in functions},
            ),
            tuple(results),
        ),
        names,
        "main",
        data.draw(st.sampled_from([slice(0, 1), slice(None), slice(-1, None)])),
    )
    assert list(found.terms) == TERMS
    assert found.total == pytest.approx(sum(found.terms.values())) == pytest.approx(sum(found.per_agent.values()))
    assert -1e-9 <= found.total <= 4 + 1e-9 and found.solved == (found.total > 4 - 1e-9)
    for name, value in found.terms.items():
        assert min(POINTS[name], 0) - 1e-9 <= value <= MAX_TERMS[name] + 1e-9
    for agent, share in found.per_agent.items():
        assert -1e-9 <= share <= max_parts(names, "main")[agent] + 1e-9
    if not found.terms["main_defined"]:
        assert sum(found.terms[name] for name in TERMS[2:]) == 0
    if not found.terms["parses"] or not found.terms["tests"]:
        assert all(found.terms[name] == 0 for name in TERMS[4:])
    assert found.terms["uses_helper"] or found.terms["not_thin"] == found.terms["ignored"] == 0
    json.dumps(found.details)  # infos can be logged
    assert all(isinstance(line, str) for lines in remarks.by_mode(found.details).values() for line in lines)

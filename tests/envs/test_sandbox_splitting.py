"""Taking a data set's tests apart: what counts as a test, and when it passes."""

import pytest

from llm_marl_envs.sandbox.inside.splitting import split
from llm_marl_envs.sandbox.inside.tracking import Lost, Tracker


class Here:
    """A program that needs no process: the tracker's other side."""

    def __init__(self, function, called=()):
        self.function = function
        self.called = set()
        self.last = None
        self._marks = called

    def call(self, *args, **kwargs):
        self.called.update(self._marks)
        self.last = self.function(*args, **kwargs)
        return self.last


def play(tests, function, reference="", called=()):
    """(source, outcome) of each counted test, and the constant ones."""
    suite = split(tests, "entry")
    tracker = Tracker(suite, Here(function, called), loaded=True)
    tracker.execute(compile(reference, "reference", "exec"), "entry")
    return [(row["source"], row["outcome"]) for row in tracker.all()], suite.constant


def outcomes(tests, function, reference=""):
    return [outcome for _, outcome in play(tests, function, reference)[0]]


def double(x):
    return 2 * x


def fails_on_three(x):
    if x == 3:
        raise ValueError("three")
    return 2 * x


def test_each_assert_of_check_is_a_test_of_its_own():
    tests = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) == 5, 'no'\n    assert candidate(3)"
    rows, constant = play(tests, double)
    assert rows == [
        ("assert candidate(1) == 2", "passed"),
        ("assert candidate(2) == 5, 'no'", "failed"),
        ("assert candidate(3)", "passed"),
    ]
    assert constant == []


def test_asserts_at_module_level_call_the_entry_point_by_its_name():
    assert outcomes("assert entry(1) == 2\nassert entry(2) == 2", double) == ["passed", "failed"]


def test_an_exception_fails_its_own_assert_only():
    assert outcomes("assert entry(1) == 2\nassert entry(3) == 6\nassert entry(4) == 8", fails_on_three) == [
        "passed",
        "error",
        "passed",
    ]


def test_an_assert_in_a_loop_passes_if_every_execution_does():
    loop = "for i in range({}):\n    assert entry(i) == 2 * i\n"
    assert outcomes(loop.format(3), double) == ["passed"]
    assert outcomes(loop.format(5), fails_on_three) == ["error"]
    assert outcomes(loop.format(0), double) == ["unreached"]
    # A later success does not undo an earlier failure.
    assert outcomes("for i in (3, 1):\n    assert entry(i) == 2 * i", fails_on_three) == ["error"]


def test_an_assert_in_a_branch_that_is_not_taken_is_unreached():
    tests = "if entry(1) == 3:\n    assert entry(2) == 4\nelse:\n    assert entry(2) == 5"
    assert outcomes(tests, double) == ["unreached", "failed"]


def test_an_exception_in_a_statement_fails_the_asserts_of_its_unit():
    tests = "for i in range(5):\n    assert entry(1) == 2\n    value = entry(i)\n    assert value == 2 * i\nassert entry(1) == 2"
    assert outcomes(tests, fails_on_three) == ["error", "error", "passed"]


def test_nothing_passes_on_what_a_failed_statement_did_not_make():
    tests = "value = entry(1)\nassert value == 2\nvalue = entry(3)\nassert value == 2\nassert entry(1) == 2"
    # The second `value` was never made: that the first still holds must not count.
    assert outcomes(tests, fails_on_three) == ["passed", "error", "error"]


def test_constant_asserts_are_not_counted():
    rows, constant = play("assert True\nassert 1 + 1 == 2, 'always'\nassert entry(1) == 2\nassert []", double)
    assert rows == [("assert entry(1) == 2", "passed")]
    assert constant == ["assert True", "assert 1 + 1 == 2, 'always'", "assert []"]


def test_try_runs_as_written_and_counts_as_one():
    tests = (
        "try:\n    entry(3)\n    assert False\nexcept ValueError:\n    pass\n"
        "try:\n    entry(1)\n    assert False\nexcept ValueError:\n    pass"
    )
    assert outcomes(tests, fails_on_three) == ["passed", "failed"]


def test_try_with_several_asserts_is_one_test():
    tests = "try:\n    assert entry(1) == 2\n    assert entry(2) == {}\nfinally:\n    pass"
    assert outcomes(tests.format(4), double) == ["passed"]
    assert outcomes(tests.format(5), double) == ["failed"]


def test_with_runs_as_written():
    tests = "import contextlib\nwith contextlib.suppress(ValueError):\n    assert entry(3) == 6\nassert entry(1) == 2"
    assert outcomes(tests, fails_on_three) == ["passed", "passed"]


def test_a_lost_call_cannot_be_survived():
    def lost(x):
        raise Lost("timeout", "too long")

    for tests in (
        "try:\n    entry(1)\nexcept BaseException:\n    pass",
        "try:\n    entry(1)\nexcept:\n    pass",
        "assert entry(1)",
        "for i in range(3):\n    assert entry(i)",
        "def f():\n    try:\n        return entry(1)\n    except BaseException:\n        return 1\nassert f()",
    ):
        assert outcomes(tests, lost) == ["timeout"], tests


def test_an_assert_in_a_function_of_the_tests_counts_where_it_stands():
    tests = "def check(candidate):\n    def same(x):\n        assert candidate(x) == 2 * x\n    same(1)\n    same({})"
    assert outcomes(tests.format(2), fails_on_three) == ["passed"]
    assert outcomes(tests.format(3), fails_on_three) == ["error"]


def test_a_function_with_try_in_it_counts_at_its_calls():
    tests = (
        "def raises(x):\n    try:\n        entry(x)\n    except ValueError:\n        return\n    assert False\n"
        "raises(3)\nraises(1)"
    )
    assert outcomes(tests, fails_on_three) == ["passed", "failed"]


def test_other_names_are_those_of_the_reference_never_of_the_program():
    reference = "def encode(x):\n    return entry(x) + 1\ndef entry(x):\n    return 10 * x"
    # `encode` goes on calling the reference's own `entry`.
    assert outcomes("assert encode(2) == 21\nassert entry(2) == 4", double, reference) == ["passed", "passed"]


def test_check_is_called_once_even_where_the_tests_call_it():
    calls = []
    tests = "def check(candidate):\n    assert candidate(1) is None\ncheck(entry)"
    assert outcomes(tests, calls.append) == ["passed"]
    assert calls == [1]


def test_set_up_that_fails_fails_every_test():
    rows, _ = play("import no_such_module\ndef check(candidate):\n    assert candidate(1) == 2", double)
    assert rows == [("assert candidate(1) == 2", "error")]


def test_randomness_and_locals_work_as_in_a_function():
    tests = (
        "def check(candidate):\n    import random\n    total = 0\n"
        "    for _ in range(3):\n        x = random.randint(0, 9)\n        total += x\n"
        "        assert candidate(x) == 2 * x\n    assert candidate(total) == total + total"
    )
    assert outcomes(tests, double) == ["passed", "passed"]


def test_which_helpers_were_called_is_told_by_test():
    suite = split("assert entry(1) == 2\nassert 1 == len(str(1))", "entry")
    tracker = Tracker(suite, Here(double, called={"aux"}), loaded=True)
    tracker.execute(compile("", "reference", "exec"), "entry")
    assert [row["called"] for row in tracker.all()] == [["aux"], []]


def test_tests_that_are_no_python_are_our_fault_and_raise():
    with pytest.raises(SyntaxError):
        split("def check(candidate:", "entry")


@pytest.mark.parametrize(
    "tests, calls",
    [
        ("assert entry(1) == 2\nassert entry(2, k=[3]) == 4", [(([1]), {}), ([2], {"k": [3]})]),
        ("def check(candidate):\n    n = 3\n    assert abs(candidate((1,)) - n) < 0.1, 'near'", [([(1,)], {})]),
        ("assert not entry()\nassert 1 == entry(-1)", [([], {}), ([-1], {})]),
        ("assert True", []),
        ("assert entry(1) == entry(2)", None),  # two calls
        ("assert entry(entry(1)) == 2", None),
        ("n = 1\nassert entry(n) == 2", None),  # not a literal
        ("for i in range(3):\n    assert entry(1) == 2", None),
        ("assert 0 < entry(1) < 3", None),
        ("assert entry(1) and entry(2)", None),
        ("assert (entry(1) if True else 2)", None),
        ("assert [entry(1) for _ in range(2)]", None),
        ("assert entry(*[1])", None),
        ("assert entry(**{'k': 1})", None),
        ("assert list(map(entry, [1]))", None),
        ("assert entry(1) == 2, entry(2)", None),
        ("value = entry(1)\nassert value == 2", None),
        ("try:\n    entry(1)\nexcept ValueError:\n    pass", None),
        ("def helper():\n    return entry(1)\nassert helper() == entry(2)", None),
        ("assert 1 == 2", []),
    ],
)
def test_calls_are_foreseen_where_nothing_can_come_between(tests, calls):
    assert split(tests, "entry").calls == calls

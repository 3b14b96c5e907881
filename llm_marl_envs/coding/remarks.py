"""What the feedback modes say about a program, beyond the terms of its score: made from ``Score.details`` alone.

Nothing here is about a hidden test but how many there are and how many passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEST_CHARACTERS = 400  # of a test's source: one may hold a list of thousands of numbers

_KINDS = {
    "missing": "Loaded, the code held no function of the wanted name.",
    "timeout": "It ran out of time while it was loaded.",
    "memory": "It ran out of memory while it was loaded.",
    "crash": "Its process died while it was loaded.",
    "protocol_error": "Its process sent what is no result.",
    "checker_limit": "What it returned could not be compared within the limits.",
}
_OUTCOMES = {
    "passed": "passed",
    "failed": "does not hold",
    "timeout": "ran out of time",
    "memory": "ran out of memory",
    "crash": "the process died",
    "protocol_error": "the process sent what is no result",
    "unsupported": "a value of a type that tests cannot take",
    "unreached": "was not reached",
    "not_run": "was not run",
}
_USES = {
    "used": "{main} uses {helper}",
    "thin": "{main} only passes on what {helper} returns",
    "ignored": "{main} calls {helper} and throws the result away",
    "redefined": "{main} does not reach {helper}, since its part defines that name itself",
    "not_called": "{main} does not call {helper}",
    "not_reached": "{main} holds a call of {helper}, and made none in a test that passed",
}


def by_mode(details: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """``Score.remarks``.

    Args:
        details: as ``rewards.score_verdict`` makes them.
    """
    return {"diagnosis": tuple(diagnosis(details)), "signals": tuple(signals(details))}


def diagnosis(details: Mapping[str, Any]) -> list[str]:
    """Each part, how loading went, tests passed, each visible test that did not pass, the use of each helper."""
    *helpers, main = details["parts"].values()
    lines = [f"- {agent}: {_part(part)}" for agent, part in details["parts"].items()]
    if details["kind"] == "load_error":
        lines.append(f"- It raised {details['error']} while it was loaded.")
    elif details["kind"] in _KINDS:
        lines.append(f"- {_KINDS[details['kind']]}")
    lines.append(f"- tests passed: {details['passed']} of {details['total']}{_timeouts(details)}")
    failing = [test for test in details["visible"] if test["outcome"] != "passed"]
    lines += [f"- {_clip(test['test'])}: {_outcome(test)}" for test in failing]
    if any("candidate" in test["test"] for test in failing):
        lines.append(f"  (candidate is {main['function']})")
    for helper in helpers:
        if told := _USES.get(details["use"][helper["function"]]):
            lines.append(f"- {told.format(main=main['function'], helper=helper['function'])}")
    return lines


def signals(details: Mapping[str, Any]) -> list[str]:
    """Numbers only: tests passed, and whether each visible test did."""
    lines = [f"- tests passed: {details['passed']} of {details['total']}"]
    for number, test in enumerate(details["visible"], start=1):
        lines.append(f"- visible test {number}: {'passed' if test['outcome'] == 'passed' else 'not passed'}")
    return lines


def _part(part: Mapping[str, Any]) -> str:
    function, error = part["function"], part["error"]
    if error is not None:
        return f"{error['type']} in line {error['line']}, column {error['column']} of the code"
    if not part["defined"]:
        return f"no function {function} is defined"
    return f"{function} is defined" if part["returns"] else f"{function} is defined, and returns nothing"


def _outcome(test: Mapping[str, str]) -> str:
    return f"raised {test['error']}" if test["outcome"] == "error" else _OUTCOMES.get(test["outcome"], test["outcome"])


def _timeouts(details: Mapping[str, Any]) -> str:
    return f" ({details['timeouts']} ran out of time)" if details["timeouts"] else ""


def _clip(source: str) -> str:
    source = source.strip()
    return source if len(source) <= _TEST_CHARACTERS else f"{source[:_TEST_CHARACTERS]} [...]"

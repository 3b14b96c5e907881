"""The reward of the coding tasks as a function of a verdict, and every constant in it.

=====  ==================  =======  ===============================================================================
level  term                maximum  value
=====  ==================  =======  ===============================================================================
1      ``helper_defined``  0.4      the helper's function is defined and returns something
1      ``main_defined``    0.6      the entry point is defined and returns something; else stop
2      ``parses``          0.5      all parts together are Python; else stop
3      ``tests``           1.0      the fraction of the counted tests that pass; if none passes, stop
3      ``uses_helper``     0.5      the entry point uses the helper
3      ``not_thin``        1.0      it uses it, and is no thin wrapper of it
3      ``ignored``         0.0      -0.5 if it calls the helper and throws the result away
=====  ==================  =======  ===============================================================================

A level that stops leaves the terms after it at 0. The maximum is 4.0, the minimum 0. With several helpers, the terms
about a helper are the means over the helpers, so that the maximum stays.

*Defined and returns*: the part, once the code is found in the response, has a function of the wanted name at its top
level, with a ``return`` of a value in its own body.

*Uses the helper*: the helper is defined and returns; the entry point (or a function of the main part that it reaches)
calls it, by the syntax tree; the main part does not define that name itself; and the helper was called while a test
ran that passed. A comment, a string, or a call that is never reached earns nothing. ``not_thin`` and ``ignored`` are
asked of helpers that are used, so that a useless call is never worth less than none.

*Thin* and *ignored* are decided on the syntax tree; ``llm_marl_envs.sandbox.programs.UseFacts`` says how.

Each agent's own part (``reward_mode="individual"``; the parts add up to the total): its own definition,
``helper_defined`` or ``main_defined``; of all other terms one half goes to the main agent and the other to the helpers:
of ``parses`` and ``tests`` an equal share to each, of ``uses_helper``, ``not_thin`` and ``ignored`` to the helper that
earned it.
"""

from __future__ import annotations

import builtins
import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ..task import Score

if TYPE_CHECKING:
    from ..sandbox.programs import PartFacts, TestResult, UseFacts, Verdict

#: Points of each term. Source: the public coding environments of arXiv 2508.04652 (``execution_reward_aux``), in which
#: regular expressions stand where syntax trees and real calls stand here.
POINTS: Mapping[str, float] = {
    "helper_defined": 0.4,
    "main_defined": 0.6,
    "parses": 0.5,
    "tests": 1.0,
    "uses_helper": 0.5,
    "not_thin": 1.0,
    "ignored": -0.5,
}
#: The largest value of each term; they add up to 4.0.
MAX_TERMS: Mapping[str, float] = {name: max(points, 0.0) for name, points in POINTS.items()}

_OF_HELPERS = ("helper_defined", "uses_helper", "not_thin", "ignored")
_JOINT = ("parses", "tests")
_ERROR_TYPE = re.compile(r"[A-Za-z]\w*")
_PLACE = re.compile(r"\(line (\d{1,6}) of (\w+)\)$")


def max_parts(helpers: Collection[str], main: str) -> dict[str, float]:
    """The largest part of each agent: 1.9 / number of helpers for each helper, 2.1 for main."""
    shared = sum(MAX_TERMS.values()) - MAX_TERMS["helper_defined"] - MAX_TERMS["main_defined"]
    part = (MAX_TERMS["helper_defined"] + shared / 2) / len(helpers)
    return {**dict.fromkeys(helpers, part), main: MAX_TERMS["main_defined"] + shared / 2}


def score_verdict(verdict: Verdict, helpers: Mapping[str, str], main: str, visible: slice = slice(0, 1)) -> Score:
    """Score what the sandbox found.

    Args:
        verdict: of a program with one helper part for each agent in ``helpers``, in that order.
        helpers: agent -> the name of the function that it was asked for; at least one.
        main: the agent that writes the entry point.
        visible: which of the counted tests the agents may learn about.

    ``Score.details``, which holds nothing of hidden tests but their number and how many passed:

    - ``kind``: the verdict's kind (``"ok"`` if the program was loaded and called)
    - ``error``: where the program raised while it was loaded, the exception's type and place; else ``""``
    - ``passed``, ``total``, ``timeouts``: numbers of counted tests; where the score stops before them, none has passed
      and all are ``"not_run"``
    - ``parts``: agent -> ``function``, ``defined``, ``returns``, and ``error``: None, or the syntax error's ``type``,
      ``line`` and ``column``, from 1, in the code that was found in the response
    - ``helper_called``: function -> whether it was called while a test ran that passed
    - ``use``: function -> ``"used"``, ``"thin"``, ``"ignored"``, ``"redefined"`` (by the main part), ``"not_called"``,
      ``"not_reached"`` (there is a call, and none was made while a test ran that passed), ``"missing"`` (it is not
      defined with a return) or ``"unknown"`` (it does not come to that)
    - ``visible``: for each visible test ``test`` (its source), ``outcome``, and ``error``: the exception's type and
      place, such as ``"ValueError in line 3 of aux"``, or ``""``. A type that is not Python's own is ``"Exception"``
    - ``isolation``: the backend that ran the program
    """
    structure, tests = verdict.structure, verdict.tests
    facts = {part.name: part for part in structure.helpers}
    terms = dict.fromkeys(POINTS, 0.0)
    terms["main_defined"] = POINTS["main_defined"] * _is_whole(structure.main)
    has_stopped = not (_is_whole(structure.main) and structure.together)
    if has_stopped:  # a program may run without a helper that is no Python: its results do not count, nor are they told
        tests = tuple(dataclasses.replace(test, outcome="not_run", message="", called=()) for test in tests)
    passed = sum(test.passed for test in tests)
    reached = {name for test in tests if test.passed for name in test.called}
    use = dict.fromkeys(helpers.values(), "unknown")
    if not has_stopped:
        terms["parses"] = POINTS["parses"]
        terms["tests"] = POINTS["tests"] * passed / max(len(tests), 1)
        for function in use:
            use[function] = _use(facts.get(function), structure.uses.get(function), function in reached)
    own = {
        agent: _helper_terms(facts.get(function), structure.uses.get(function), use[function])
        for agent, function in helpers.items()
    }
    for name in _OF_HELPERS:
        terms[name] = sum(part[name] for part in own.values()) / len(own)
    lines = {part.name: part.source.count("\n") + 1 for part in (*structure.helpers, structure.main)}
    details: dict[str, Any] = {
        "kind": verdict.kind,
        "error": _error(verdict.message, lines) if verdict.kind == "load_error" else "",
        "passed": passed,
        "total": len(tests),
        "timeouts": sum(test.outcome == "timeout" for test in tests),
        "parts": {agent: _part(function, facts.get(function)) for agent, function in helpers.items()},
        "helper_called": {function: function in reached for function in use},
        "use": use,
        "visible": [_test(test, lines) for test in tests[visible]],
        "isolation": verdict.isolation,
    }
    details["parts"][main] = _part(structure.main.name, structure.main)
    solved = all(terms[name] >= best - 1e-9 for name, best in MAX_TERMS.items())
    return Score.of(terms, per_agent=_split(terms, own, main), details=details, solved=solved)


def _is_whole(part: PartFacts | None) -> bool:
    return part is not None and part.defined and part.returns


def _use(part: PartFacts | None, use: UseFacts | None, reached: bool) -> str:
    """How the main part uses one helper, in a word; ``score_verdict`` lists the words."""
    if not _is_whole(part):
        return "missing"
    if use is not None and use.redefined:
        return "redefined"
    if use is None or not use.called:
        return "not_called"
    if not reached:
        return "not_reached"
    return "ignored" if use.ignored else "thin" if use.thin else "used"


def _helper_terms(part: PartFacts | None, use: UseFacts | None, word: str) -> dict[str, float]:
    """What one helper earns, before the mean over the helpers."""
    earned = dict.fromkeys(_OF_HELPERS, 0.0)
    earned["helper_defined"] = POINTS["helper_defined"] * _is_whole(part)
    if use is not None and word in ("used", "thin", "ignored"):
        earned["uses_helper"] = POINTS["uses_helper"]
        earned["not_thin"] = POINTS["not_thin"] * (not use.thin)
        earned["ignored"] = POINTS["ignored"] if use.ignored else 0.0
    return earned


def _split(terms: Mapping[str, float], own: Mapping[str, Mapping[str, float]], main: str) -> dict[str, float]:
    joint = sum(terms[name] for name in _JOINT)
    parts = {
        agent: (of["helper_defined"] + (joint + sum(of[name] for name in _OF_HELPERS[1:])) / 2) / len(own)
        for agent, of in own.items()
    }
    # What the helpers leave, so that the parts add up to the total but for one rounding.
    return {**parts, main: float(sum(terms.values())) - sum(parts.values())}


# -- details: a message is cut down to an exception's type and place, since a program may put into its messages what it
# -- was called with, and since their words differ between versions of Python


def _part(function: str, part: PartFacts | None) -> dict[str, Any]:
    error = part.error if part is not None else None
    return {
        "function": function,
        "defined": part is not None and part.defined,
        "returns": part is not None and part.returns,
        "error": None if error is None else {key: error.get(key) for key in ("type", "line", "column")},
    }


def _test(test: TestResult, lines: Mapping[str, int]) -> dict[str, str]:
    error = _error(test.message, lines) if test.outcome == "error" else ""
    return {"test": test.source, "outcome": test.outcome, "error": error}


def _error(message: str, lines: Mapping[str, int]) -> str:
    """Type and place of the exception that a message tells of.

    A program chooses the names of its own exceptions and could forge a place: only names that Python has and lines that
    exist (``lines``: part -> how many) are passed on.
    """
    found = _ERROR_TYPE.match(message)
    kind = getattr(builtins, found[0], None) if found else None
    name = kind.__name__ if isinstance(kind, type) and issubclass(kind, BaseException) else "Exception"
    place = _PLACE.search(message)
    if place and 1 <= int(place[1]) <= lines.get(place[2], 0):
        return f"{name} in line {place[1]} of {place[2]}"
    return name

"""``check_env``: does an environment keep the contract?

It tries the rules of PettingZoo, one by one and then by PettingZoo's own tests, and our additions (DESIGN: the
environment contract). Every finding says what is wrong, where, and what to change:

``basics``       agents, spaces, what ``reset`` and ``step`` return
``randomness``   the same seed, the same episode; nothing global is used
``contract``     text, horizon, terms of the reward, infos, state, pickling
``stepping``     clones, refused actions, actions that do not count
``theirs``       PettingZoo's own tests

A new rule is a function in one of these files and a line in ``RULES``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pettingzoo import ParallelEnv

from ..errors import CheckFailedError
from .basics import check_actions, check_agents, check_observations, check_reset, check_spaces, check_step
from .contract import (
    check_horizon,
    check_infos,
    check_np_random,
    check_pickling,
    check_state,
    check_terms,
    check_text_spaces,
)
from .findings import Check, Finding, RuleBroken, raised
from .randomness import check_determinism, check_global_random_state
from .stepping import check_bad_actions, check_clone, check_ignored_actions, check_step_without_episode
from .theirs import check_aec, check_parallel_api, check_state_api

__all__ = ["Finding", "check_env", "check_ignored_actions", "examine"]


@dataclass(frozen=True)
class Rule:
    """A rule, as the table below lists it.

    Attributes:
        check: raises :class:`~.findings.RuleBroken` where the rule is broken.
        ours: whether it is an addition of ours to PettingZoo's rules.
        after: rules that it relies on: it is tried only if they hold, or it would say the same in other words.
    """

    check: Check
    ours: bool = False
    after: tuple[Check, ...] = ()


_BASICS = (check_agents, check_spaces, check_reset, check_step)
RULES = (
    Rule(check_agents),
    Rule(check_spaces, after=_BASICS[:1]),
    Rule(check_reset, after=_BASICS[:2]),
    Rule(check_step, after=_BASICS[:3]),
    Rule(check_observations, after=_BASICS),
    Rule(check_actions, after=_BASICS),
    Rule(check_determinism, after=_BASICS),
    Rule(check_parallel_api, after=(*_BASICS, check_observations, check_actions, check_determinism)),
    Rule(check_aec, after=(*_BASICS, check_observations, check_actions, check_determinism, check_parallel_api)),
    Rule(check_global_random_state, ours=True, after=_BASICS),
    Rule(check_text_spaces, ours=True, after=_BASICS),
    Rule(check_pickling, ours=True),
    Rule(check_horizon, ours=True, after=_BASICS),
    Rule(check_terms, ours=True, after=_BASICS),
    Rule(check_infos, ours=True, after=_BASICS),
    Rule(check_np_random, ours=True, after=_BASICS),
    Rule(check_ignored_actions, ours=True, after=(*_BASICS, check_determinism)),
    Rule(check_state, ours=True, after=_BASICS),
    Rule(check_state_api, ours=True, after=(*_BASICS, check_determinism, check_state)),
    Rule(check_clone, ours=True, after=_BASICS),
    Rule(check_bad_actions, ours=True, after=(*_BASICS, check_determinism)),
    Rule(check_step_without_episode, ours=True, after=_BASICS),
)


def check_env(env: ParallelEnv, strict: bool = True) -> list[str]:
    """Check a parallel environment.

    The environment is reset and stepped with sampled actions; hand in one that you can spare.

    Args:
        env: an instance. Fresh copies of it are made by pickling; of one that cannot be pickled, by deep copying.
        strict: whether our additions to PettingZoo's rules are demanded, or returned as notes. Environments whose
            spaces are no text, such as a ``TokenView``, are checked with ``strict=False``.

    Returns:
        Notes: what a strict check would have demanded. Empty if strict.

    Raises:
        CheckFailedError: the rules that are broken, all that can be told at once, with what to mend.
    """
    findings = examine(env)
    if demanded := [f for f in findings if f.demanded or strict]:
        if len(demanded) == 1:
            raise CheckFailedError(str(demanded[0]))
        lines = [f"{number}. {finding}" for number, finding in enumerate(demanded, start=1)]
        raise CheckFailedError("\n".join([f"{len(demanded)} things to mend:", *lines]))
    return [str(finding) for finding in findings]


def examine(env: ParallelEnv) -> list[Finding]:
    """All that can be told of what is wrong with an environment, the basics first. Empty: nothing."""
    if not isinstance(env, ParallelEnv):
        return [
            Finding(
                f"{type(env).__name__} is not a pettingzoo.ParallelEnv.",
                "Derive from it; an AEC environment is turned into one by "
                "pettingzoo.utils.conversions.aec_to_parallel(env).",
            )
        ]
    findings: list[Finding] = []
    broken: set[Check] = set()
    for rule in RULES:
        if broken.intersection(rule.after):
            broken.add(rule.check)
            continue
        try:
            _tried(rule.check, env)
        except RuleBroken as failure:
            broken.add(rule.check)
            finding = Finding(failure.found, failure.mend, demanded=not rule.ours)
            if finding.found not in [f.found for f in findings]:
                findings.append(finding)
    return findings


def _tried(check: Check, env: ParallelEnv) -> None:
    """Try one rule; what the environment itself raises on the way is a finding that says where."""
    try:
        check(env)
    except RuleBroken:
        raise
    except Exception as error:  # noqa: BLE001 -- any exception of the environment is what the check has found
        raise raised(f"An episode ({check.__name__})", error) from error

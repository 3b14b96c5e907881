"""Who answers in tests, as third parties write it. A module of its own, so that it can be named on the command line."""

from __future__ import annotations

from llm_marl_baselines.policies.base import Response


def say_a(observation: str, agent: str) -> str:
    return "A"


class SaysA:
    """A policy, as a class."""

    made = 0

    def __init__(self) -> None:
        SaysA.made += 1

    def generate(self, requests, *, seed, greedy=False):
        return [[Response("A")] * request.num_samples for request in requests]


class Callable:
    """A class of functions."""

    def __call__(self, observation: str, agent: str) -> str:
        return "A"


class Needy:
    def __init__(self, word: str) -> None:
        self.word = word


says_a = SaysA()
number = 3


def broken(observation: str, agent: str) -> int:
    return 3

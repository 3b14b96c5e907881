"""THE TABLE of algorithms: one readable file each. A third party passes ``"package.module:Class"``.

Several names may stand for one class: a *preset* is the class with the settings of the packaged configuration of that
name (``configs/marloo.yaml``). What a class has to offer is :class:`~llm_marl_baselines.algorithms.base.Algorithm`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llm_marl_envs.tables import Table

_HERE = __name__


@dataclass(frozen=True)
class Capabilities:
    """What an algorithm needs, and what it can use.

    Attributes:
        rewards: ``joint``: all agents learn from one reward, and different ones are an error; ``own``: each agent
            learns from its own, which may be the joint one.
        group: whether it compares several responses to one question, so that group_size must be at least 2.
        critic: whether it trains one.
        epochs: whether it goes over a batch several times, with clipped ratios, in the packaged settings.
        about: in a line.
    """

    rewards: Literal["joint", "own"]
    group: bool
    critic: bool
    epochs: bool
    about: str


_TABLE: dict[str, tuple[str, Capabilities]] = {
    "magrpo": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", True, False, False, "the group's mean as baseline")),
    "marloo": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", True, False, False, "the others' mean as baseline")),
    "maremax": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", False, False, False, "the greedy joint response's")),
    "mareinforce": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", False, False, False, "no baseline")),
    "drmas": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", True, False, False, "chains, standardised per agent")),
    "atgrpo": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", True, False, False, "standardised per agent and turn")),
    "counterfactual": (f"{_HERE}.magrpo:MAGRPO", Capabilities("joint", True, False, False, "resamples of one agent")),
    "igrpo": (f"{_HERE}.igrpo:IGRPO", Capabilities("own", True, False, False, "every agent on its own")),
    "grpo": (f"{_HERE}.grpo:GRPO", Capabilities("joint", True, False, False, "one model answers for all roles")),
    "maac": (f"{_HERE}.maac:MAAC", Capabilities("joint", False, True, False, "a critic of the joint history")),
    "iac": (f"{_HERE}.iac:IAC", Capabilities("own", False, True, False, "a critic of each agent's own history")),
    "mappo": (f"{_HERE}.maac:MAAC", Capabilities("joint", False, True, True, "maac with GAE, ratios and epochs")),
    "ippo": (f"{_HERE}.iac:IAC", Capabilities("own", False, True, True, "iac with GAE, ratios and epochs")),
}

ALGORITHMS = Table("algorithm", {name: target for name, (target, _) in _TABLE.items()})
CAPABILITIES = {name: capabilities for name, (_, capabilities) in _TABLE.items()}

"""Who samples for the models: the models themselves, or another engine that gets their weights.

Scoring and training are the models' own in either case; see :class:`~llm_marl_baselines.policies.hf.HFPolicies`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import Table

if TYPE_CHECKING:
    from .base import Sampling
    from .jobs import Job
    from .sampling import Sampled
    from .weights import Learner


class Sampler(Protocol):
    """Another engine that samples. It must never answer with weights other than the learners' present ones."""

    def attach(self, learners: Mapping[str, Learner], sampling: Mapping[str, Sampling]) -> None:
        """Called once, before any work, with the learner and the settings of every agent.

        Raises:
            ConfigError: the engine cannot do what they ask for.
        """
        ...

    def run(self, job: Job) -> list[Sampled]:
        """One result for each row of the job, as :func:`~llm_marl_baselines.policies.sampling.generate` gives."""
        ...


def _themselves(**args: Any) -> None:
    if args:
        raise ConfigError(f"sampler=hf, the models themselves, takes no sampler_args; got {', '.join(sorted(args))}.")


# THE TABLE of samplers. A third party passes "package.module:Class"; it is called with sampler_args.
SAMPLERS = Table("sampler", {"hf": _themselves, "vllm": f"{__package__}.vllm:VLLM"})


def make_sampler(name: str, args: Mapping[str, Any]) -> Sampler | None:
    """The sampler of that name; None where the models sample themselves.

    Raises:
        ConfigError: arguments that it does not take; UnknownNameError, one of them, for an unknown name.
        MissingDependencyError: its engine is not installed.
    """
    kind = SAMPLERS.resolve(name)
    try:
        inspect.signature(kind).bind(**args)
    except TypeError as error:
        raise ConfigError(f"sampler_args do not fit sampler={name}: {error}") from error
    return kind(**args)

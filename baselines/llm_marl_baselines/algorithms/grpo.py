"""GRPO (arXiv 2402.03300): MAGRPO of one agent, which answers for all roles; ``configs/grpo.yaml`` has its settings."""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.errors import ConfigError

from ..policies.base import TrainablePolicy
from .magrpo import MAGRPO


class GRPO(MAGRPO):
    """See the module's docstring."""

    def prepare(self, policy: TrainablePolicy, agents: Sequence[str]) -> None:
        if len(agents) > 1:
            raise ConfigError(
                f"grpo trains one agent, and there are {len(agents)} ({', '.join(agents)}): use --protocol single, in "
                "which one model answers for all, or magrpo."
            )

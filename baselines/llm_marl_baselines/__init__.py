"""Training language models on llm-marl-envs with multi-agent reinforcement learning."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import resume, train

__version__ = "0.1.0"

__all__ = ["resume", "train"]


def __getattr__(name: str) -> Any:
    # Only when asked for: they bring torch and transformers with them.
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

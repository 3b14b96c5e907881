"""The exceptions of the baselines; those of bad input are the environments' (``llm_marl_envs.errors``)."""

from llm_marl_envs.errors import LlmMarlError


class NonFiniteError(LlmMarlError, ArithmeticError):
    """A reward, a loss or a gradient is NaN or infinite. The run stops; nothing is replaced or skipped."""


class ReplayError(LlmMarlError, RuntimeError):
    """A replayed episode differs from the first one: the environment is not deterministic, so it cannot branch."""


class EpisodeError(LlmMarlError, RuntimeError):
    """An environment or a policy broke its contract in the middle of a rollout."""


class CheckpointError(LlmMarlError, OSError):
    """A checkpoint could not be written or read."""


class RunLogError(LlmMarlError, OSError):
    """A log line could not be written."""


class Interrupted(LlmMarlError):
    """The run was stopped by a signal, after saving."""


class ProcessError(LlmMarlError, RuntimeError):
    """Another process of the run failed, in a way that is a fault of the program, not of its input."""


class ProcessLostError(LlmMarlError, RuntimeError):
    """Another process of the run has ended without a word: killed, or out of memory."""

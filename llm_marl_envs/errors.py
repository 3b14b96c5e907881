"""The exceptions of this project, one small tree.

``LlmMarlError`` is the root. Each message names the thing, the limit and the remedy. Where a standard exception
means the same (``ValueError``, ``KeyError`` ...), ours is also a subclass of it, so that code which knows nothing
of this project still catches it.

Bad text from a language model never raises any of these: it earns a low reward and says so in its terms.
"""


class LlmMarlError(Exception):
    """Base of every exception that this project raises on purpose."""


class UnknownNameError(LlmMarlError, LookupError):
    """A name (environment id, feedback mode, algorithm ...) is not in its table."""


class ConfigError(LlmMarlError, ValueError):
    """An argument has the wrong type or lies outside its range."""


class DataError(LlmMarlError, ValueError):
    """A data file, a row or a field cannot be used. The message names all three."""


class InvalidActionError(LlmMarlError, ValueError):
    """An action that the environment must refuse: wrong type, unknown or missing agent, too long a text."""


class ResetNeededError(LlmMarlError, RuntimeError):
    """``step`` was called before ``reset`` or after the episode ended."""


class CloneUnsupportedError(LlmMarlError, NotImplementedError):
    """A wrapper cannot be cloned because the environment inside it cannot. A rollout replays it instead."""


class MissingDependencyError(LlmMarlError, ImportError):
    """An optional package is needed. The message gives the command that installs it."""


class CheckFailedError(LlmMarlError, AssertionError):
    """``check_env`` found an environment that breaks the contract. The message says what to mend."""


class SandboxUnavailable(LlmMarlError, RuntimeError):  # noqa: N818  (the name in the docs; it says what is the case)
    """Model-written code cannot be isolated here. The message names the step that fails and the remedies."""


class SandboxError(LlmMarlError, RuntimeError):
    """A fault of the sandbox or of the machine, not of the program: nothing was scored."""

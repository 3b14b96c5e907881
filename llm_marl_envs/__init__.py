"""Text environments in which language models learn to work together.

``make("writing/tldr-v0")`` gives a PettingZoo ``ParallelEnv`` whose observations and actions are text.
"""

from .checks import check_env
from .datasets import load_rows
from .env import CollaborationEnv
from .errors import LlmMarlError
from .registry import make, register, registered
from .spaces import TextObservation, UnicodeText
from .task import Score, Task, Turn
from .vector import ParallelVectorEnv

__version__ = "0.1.0"

__all__ = [
    "CollaborationEnv",
    "LlmMarlError",
    "ParallelVectorEnv",
    "Score",
    "Task",
    "TextObservation",
    "Turn",
    "UnicodeText",
    "check_env",
    "load_rows",
    "make",
    "register",
    "registered",
]

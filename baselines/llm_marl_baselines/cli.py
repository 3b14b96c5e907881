"""The command ``llm-marl``.

    train ALGORITHM --env ID --model NAME   train agents
    train --resume RUN                      go on with a run
    eval RUN...                             play held-out rows with each run's newest checkpoint
    eval --env ID --model NAME              play them with untrained models, under any protocol
    compare RUN RUN...                      hold runs against each other: a figure and a table
    crossplay RUN RUN...                    let agents of different runs play together
    plot RUN...                             draw learning curves
    export RUN --to DIR                     write one adapter folder per agent
    list                                    environments, algorithms, configurations

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence

from llm_marl_envs.errors import (
    ConfigError,
    DataError,
    LlmMarlError,
    MissingDependencyError,
    UnknownNameError,
)
from llm_marl_envs.tables import Table

from . import launchers, parallel
from .errors import ProcessLostError

USAGE_ERRORS = (ConfigError, DataError, UnknownNameError, MissingDependencyError)
COMMANDS = Table(
    "command",
    {
        "train": "llm_marl_baselines.commands.train:main",
        "eval": "llm_marl_baselines.commands.evaluation:main",
        "compare": "llm_marl_baselines.commands.compare:main",
        "crossplay": "llm_marl_baselines.commands.crossplay:main",
        "plot": "llm_marl_baselines.commands.plot:main",
        "export": "llm_marl_baselines.commands.export:main",
        "list": "llm_marl_baselines.commands.listing:main",
    },
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [a for a in args if a != "--debug"]
    # Tokenizers warn about forks, and transformers about its own future; what users need to know we say ourselves.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers|peft")
    try:
        if argv is None:
            launchers.start_all()
        parallel.start()
        with _importable_here():
            return _dispatch(args)
    except SystemExit as stop:  # argparse leaves by it, after it has said what is wrong
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt:
        print("\nStopped by Ctrl-C.", file=sys.stderr)
        return 130
    except (LlmMarlError, OSError) as error:  # OSError: a folder that cannot be read or written, a full disk
        if debug:
            raise
        if parallel.is_main() or isinstance(error, ProcessLostError):  # the main process may be the one that is lost
            print(f"llm-marl: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, USAGE_ERRORS) else 1


@contextlib.contextmanager
def _importable_here() -> Iterator[None]:
    """Modules of the working folder can be named as ``module:Thing``. It is searched last, so that a file there hides
    no installed package; with Python's own ``-P`` it is not searched."""
    here = os.getcwd()
    if sys.flags.safe_path or here in sys.path or "" in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(__doc__)
        print("Each command explains itself: llm-marl train magrpo --help. --debug shows tracebacks. No telemetry.")
        return 0 if args else 2
    if args[0] == "--version":
        from llm_marl_envs import __version__

        print(f"llm-marl {__version__}")
        return 0
    command = COMMANDS.resolve(args[0])
    if parallel.size() > 1 and args[0] != "train":
        raise ConfigError(f"llm-marl {args[0]} is one process. Start it without a launcher; only train has several.")
    return command(args[1:])

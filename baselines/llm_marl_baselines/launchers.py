"""What launchers (``accelerate launch``, ``torchrun``, ``mpirun``) tell the processes that they start.

And a gap in one of them, closed. ``accelerate launch --cpu --num_processes N`` starts N processes only by ``mpirun``
(seen in 1.15). Without a hostfile for that it starts one, says nothing, and leaves an address for the others. Its
launcher for GPUs (``--multi_gpu``, which is torch's) starts N on CPUs just as well. So the command is handed to
accelerate once more, for that launcher.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from llm_marl_envs.errors import ConfigError

# How they, and versions of MPI, tell how many processes there are, and which this one is.
SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")


def num_processes(environ: Mapping[str, str]) -> int:
    """How many processes were started, 1 without a launcher.

    Raises:
        ConfigError: several were asked for, and one was started; or what is needed to meet the others is not set.
    """
    if left_alone(environ):
        raise ConfigError(
            "accelerate launch was asked for several processes on CPUs and has started one. Put --multi_gpu in the "
            "place of --cpu, which takes CPUs where there is no GPU, or use torchrun --nproc_per_node N."
        )
    told = next((environ[name] for name in SIZES if environ.get(name)), "1")
    if not told.isdigit() or (size := int(told)) < 2:
        return 1
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]
    missing += [] if any(environ.get(name) for name in RANKS) else ["RANK"]
    if missing:
        raise ConfigError(
            f"WORLD_SIZE says that there are {size} processes, but {', '.join(missing)} is not set. Start them by a "
            f"launcher, such as torchrun --nproc_per_node {size} -m llm_marl_baselines train ..., or unset WORLD_SIZE."
        )
    return size


def left_alone(environ: Mapping[str, str]) -> bool:
    """Whether accelerate was asked for several processes and started one."""
    on_cpu = environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
    return on_cpu and "MASTER_ADDR" in environ and not any(name in environ for name in SIZES)


def start_all() -> None:
    """Replace this process by accelerate's other launcher, if it was left alone and its parent is accelerate."""
    if not left_alone(os.environ):
        return
    import psutil

    parent = psutil.Process().parent()
    given = None if parent is None else accelerate_arguments(parent.cmdline())
    if given is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, "-m", "accelerate.commands.launch", *for_all(given)])


def accelerate_arguments(command: Sequence[str]) -> list[str] | None:
    """What stands behind ``accelerate launch`` in a command line; None if it is another command."""
    for place, word in enumerate(command[:4]):  # behind the interpreter and its options
        if os.path.basename(word) == "accelerate" and command[place + 1 : place + 2] == ["launch"]:
            return list(command[place + 2 :])
        if word.endswith(("accelerate-launch", "accelerate.commands.launch", "accelerate/commands/launch.py")):
            return list(command[place + 1 :])
    return None


def for_all(given: Sequence[str]) -> list[str]:
    """The same arguments of ``accelerate launch``, for the launcher that starts all processes."""
    from accelerate.commands.launch import launch_command_parser

    behind = len(launch_command_parser().parse_args(list(given)).training_script_args)  # these are not accelerate's
    own = given[: len(given) - behind]
    return ["--multi_gpu", *(word for word in own if word != "--cpu"), *given[len(given) - behind :]]

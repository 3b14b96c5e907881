"""``python -m llm_marl_envs``: look at the environments without writing code.

list                 the registered ids, those of installed packages too
show ID [--seed N]   what the agents see first, on the row that the seed picks
check ID             check_env, and what to mend
check-data ID        coding tasks: run every reference solution against its tests
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from pettingzoo import ParallelEnv

from . import __version__, make
from .checks import Finding, examine
from .checks.findings import described
from .errors import ConfigError, LlmMarlError
from .text import join


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        the exit code: 0; 1 for an environment or a data set that fails its check; 2 for bad input.
    """
    parser = argparse.ArgumentParser(
        prog="python -m llm_marl_envs", description="Text environments for teams of models."
    )
    parser.add_argument("--version", action="version", version=f"llm-marl-envs {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="list the registered environments")
    show = commands.add_parser("show", help="print what the agents see at the start of an episode")
    show.add_argument("--seed", type=_seed, default=0, help="picks the data row (default 0)")
    check = commands.add_parser("check", help="check an environment and say what to mend")
    check.add_argument("--lenient", action="store_true", help="demand PettingZoo's rules only; print the rest as notes")
    check_data = commands.add_parser(
        "check-data",
        help="run every reference solution of a coding task against its tests",
        description="Exits with 1 if a reference solution falls short of full marks.",
    )
    check_data.add_argument("--data", help="a file or hub id, as the environment's own argument")
    for command in (show, check, check_data):
        command.add_argument("id", metavar="ID", help="a registered id, or package.module:id")
        command.add_argument(
            "--arg", action="append", default=[], metavar="NAME=VALUE", help="a keyword of the environment; repeatable"
        )
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except LlmMarlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> int:
    if args.command == "list":
        return _list()
    keywords = dict(_keyword(pair) for pair in args.arg)
    if args.command == "check-data":
        return _check_data(args.id, keywords if args.data is None else {"data": args.data, **keywords})
    if isinstance(env := _made(args.id, keywords), Finding):
        return _report(args.id, [env])
    if args.command == "check":
        return _report(args.id, examine(env), args.lenient)
    observations, _ = env.reset(seed=args.seed)
    print(f"{args.id}, seed {args.seed}; agents: {', '.join(env.possible_agents)}\n")
    print(join((f"{agent} sees", observation) for agent, observation in observations.items()))
    return 0


def _list() -> int:
    from .plugins import everything

    listed, broken = everything()
    for one in listed:
        print(f"{one.env_id:24} {one.target:48} {one.source}".rstrip())
    for plugin in broken:
        print(f"{plugin.source}: its module {plugin.module} cannot be imported: {plugin.error}", file=sys.stderr)
    return 0


def _made(env_id: str, keywords: dict[str, Any]) -> ParallelEnv | Finding:
    """The environment; or what it raised as its module was imported or it was made."""
    try:
        return make(env_id, **keywords)
    except LlmMarlError:
        raise
    except Exception as error:  # noqa: BLE001 -- any exception of the author's code is what the check has found
        return Finding(
            f"importing its module, or making it, raised {described(error)}.",
            "Correct that line.",
        )


def _report(env_id: str, findings: Sequence[Finding], lenient: bool = False) -> int:
    """Print what was found, and return the exit code."""
    wrong = [f for f in findings if f.demanded or not lenient]
    notes = [f for f in findings if f not in wrong]
    count = f"{len(wrong)} thing{'s' * (len(wrong) != 1)} to mend"
    print(f"{env_id}: FAILED, {count}" if wrong else f"{env_id}: passed")
    for number, finding in enumerate(wrong, start=1):
        _print_wrapped(f"\n{number}. ", finding.found)
        _print_wrapped("   Mend: ", finding.mend)
    for finding in notes:
        _print_wrapped("\nnote: ", str(finding))
    if wrong:
        print("\nThen check it again: some rules can only be tried when others hold.")
    return 1 if wrong else 0


def _print_wrapped(head: str, body: str) -> None:
    indent = " " * len(head.lstrip("\n"))
    print(head + textwrap.fill(body, 112, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def _check_data(env_id: str, keywords: dict[str, Any]) -> int:
    from .coding.checking import check_dataset
    from .coding.tasks import CodingTask

    try:
        env = make(env_id, **{"split": "train", **keywords})  # all of HumanEval, not only what the paper trains on
    except ConfigError:
        env = make(env_id, **keywords)  # an environment without splits: let its kind be named below
    task = getattr(env, "task", None)
    if not isinstance(task, CodingTask):
        raise ConfigError(f"{env_id} is no coding task: it has no reference solutions to run.")
    report = check_dataset(task, env.rows)
    print("\n".join(report.lines()))
    return 1 if report.failed else 0


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number of at least 0, not {text!r}")
    return int(text)


def _keyword(pair: str) -> tuple[str, Any]:
    name, equals, value = pair.partition("=")
    if not (name and equals):
        raise ConfigError(f"--arg takes NAME=VALUE, not {pair!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


if __name__ == "__main__":
    sys.exit(main())

"""A person at the terminal, as a policy: ``--policy ROLE=human``.

The observation is written to standard error, so that results on standard output stay clean; the answer may have many
lines.
"""

from __future__ import annotations

import sys

from llm_marl_envs.errors import ConfigError

END = "."


def answer(observation: str, agent: str) -> str:
    """Show the observation and read an answer. A line of one full stop ends it, as does the end of the input.

    Raises:
        ConfigError: there is no input to read from.
    """
    print(
        f"\n--- {agent} sees ---\n{observation}\n--- your answer; end it with a line of one '{END}' ---",
        file=sys.stderr,
    )
    lines: list[str] = []
    for line in iter(sys.stdin.readline, ""):
        if line.rstrip("\r\n") == END:
            return "\n".join(lines)
        lines.append(line.rstrip("\r\n"))
    if not lines:
        raise ConfigError(
            f"Nobody answers for agent {agent!r}: standard input has ended. The policy 'human' needs a terminal, or "
            f"one answer after another on standard input, each ended by a line of one {END!r}."
        )
    return "\n".join(lines)

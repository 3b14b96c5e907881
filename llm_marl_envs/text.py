"""How an episode is put into words: clipped, told to an agent, to a critic, and to a person who watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from .spaces import UnicodeText
from .task import Turn

if TYPE_CHECKING:
    from .env import CollaborationEnv

Block = tuple[str, str]  # heading, body


def fit(content: str, limit: int) -> str:
    """``content`` if it has at most ``limit`` characters, else its two ends around a note of what was left out.

    The beginning holds the task and the end what is new; lone surrogates become U+FFFD. Where not even the note
    fits, the beginning alone is left.
    """
    content = UnicodeText(max(len(content), 1)).clip(content)
    if len(content) <= limit:
        return content
    note = f"\n[... {len(content) - limit:,} or more characters left out ...]\n"
    if limit < len(note):
        return content[:limit]
    head = (limit - len(note)) // 2
    tail = limit - len(note) - head
    return content[:head] + note + content[len(content) - tail :]


def with_responses(told: str, actions: Mapping[str, str], agent: str, limit: int) -> str:
    """The other agents' last responses, then what the agent is told."""
    room = max(limit // (2 * len(actions)), 64)
    others = [f"The last response of {other}:\n{fit(actions[other], room)}" for other in actions if other != agent]
    return "\n\n".join([*others, told])


def with_history(prompt: str, told: str, turns: Sequence[Turn], agent: str) -> str:
    """The agent's own transcript: its prompt, then each of its responses and what it was told after it.

    Every earlier observation holds the transcript up to it, so only the last one is needed.
    """
    so_far = turns[-1].observations[agent] if len(turns) > 1 else prompt
    return f"{so_far}\n\nYour response:\n{turns[-1].actions[agent]}\n\n{told}"


def render_turn(number: int, observations: Mapping[str, str], actions: Mapping[str, str]) -> str:
    """One turn in full, every agent's observation and action, as a centralised critic reads it."""
    lines = []
    for agent in observations or actions:
        if agent in observations:
            lines.append(f"[turn {number}, {agent} sees]\n{observations[agent]}")
        if agent in actions:
            lines.append(f"[turn {number}, {agent} writes]\n{actions[agent]}")
    return "\n".join(lines)


def render_blocks(env: CollaborationEnv, newest: bool = False) -> list[Block]:
    """The episode so far: a block for each turn, with its score, and one for what the agents see now.

    With ``newest``, only what the last call of ``reset`` or ``step`` added.
    """
    if env.row is None:
        return [(env.task.name, "No episode yet: call reset().")]
    blocks = []
    for number, turn in enumerate(env.turns, start=1):
        if newest and number < len(env.turns):
            continue
        limit = "" if env.max_score is None else f" of {env.max_score:.2f}"
        terms = ", ".join(f"{name} {value:.2f}" for name, value in turn.score.terms.items())
        played = render_turn(number, {} if newest else turn.observations, turn.actions)
        body = f"{played}\n[score] {turn.score.total:.2f}{limit} ({terms})"
        blocks.append((f"{env.task.name}, row {env.row['id']}, turn {number}", body))
    if env.agents:
        number = len(env.turns) + 1
        heading = f"{env.task.name}, row {env.row['id']}, turn {number} begins"
        blocks.append((heading, render_turn(number, env.observations, {})))
    else:
        blocks.append((env.task.name, "The episode is over."))
    return blocks


def join(blocks: Iterable[Block]) -> str:
    return "\n\n".join(f"== {heading} ==\n{body}" for heading, body in blocks)


def show(blocks: Iterable[Block]) -> None:
    """Print for a person: in panels where rich is installed, plainly where it is not."""
    try:
        from rich.console import Console
        from rich.panel import Panel
        from rich.text import Text
    except ModuleNotFoundError:
        print(join(blocks), flush=True)
        return
    console = Console()
    for heading, body in blocks:
        console.print(Panel(Text(body), title=Text(heading), title_align="left"))

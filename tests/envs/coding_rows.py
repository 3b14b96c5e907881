"""Small data for the coding environments, in the forms of their data sets. All problems and tests are our own.

Arguments and results of hidden tests are numbers and words that stand nowhere else, so that a leak can be searched for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SQUARES = {
    "task_id": "Own/0",
    "prompt": (
        "from typing import List\n\n\n"
        "def sum_of_squares(numbers: List[int]) -> int:\n"
        '    """ The sum of the squares of all numbers.\n'
        "    >>> sum_of_squares([1, 2])\n"
        "    5\n"
        '    """\n'
    ),
    "entry_point": "sum_of_squares",
    "canonical_solution": "    return sum(n * n for n in numbers)\n",
    "test": (
        "METADATA = {}\n\n\ndef check(candidate):\n"
        "    assert candidate([3, 4]) == 25\n"
        "    assert candidate([7071]) == 49999041, 'a large number'\n"
        "    assert candidate([]) == 0\n"
        "    assert candidate([-8080, 1]) == 65286401\n"
        "    assert True\n"
    ),
}
UNSHIFT = {
    "task_id": "Own/1",
    "prompt": (
        "import string\n\nLETTERS = string.ascii_lowercase\n\n\n"
        "def shift(text: str):\n"
        '    """Every letter is replaced by the third after it."""\n'
        "    # The end of the alphabet goes on with its beginning.\n"
        "    return ''.join(LETTERS[(LETTERS.index(c) + 3) % 26] for c in text)\n\n\n"
        "def unshift(text: str):\n"
        '    """ Takes a text that shift has made. Returns the text before. """\n'
    ),
    "entry_point": "unshift",
    "canonical_solution": "    return ''.join(LETTERS[(LETTERS.index(c) - 3) % 26] for c in text)\n",
    "test": (
        "def check(candidate):\n"
        "    from random import choice, randint\n"
        "    for _ in range(20):\n"
        "        text = ''.join(choice('xyzzyqw') for i in range(randint(5, 9)))\n"
        "        assert candidate(shift(text)) == text\n"
        "    assert candidate('dbc') == 'ayz'\n"
    ),
}
HUMANEVAL_ROWS: list[dict[str, Any]] = [SQUARES, UNSHIFT]
COOP_ROWS = [{k: v for k, v in row.items() if k != "canonical_solution"} for row in HUMANEVAL_ROWS]
MBPP_ROWS: list[dict[str, Any]] = [
    {
        "source_file": "own.ipynb",
        "task_id": 2,
        "prompt": "Write a function to find the area of a ring.",
        "code": "import math\r\ndef ring_area(inner, outer=2):\r\n  return math.pi * (outer ** 2 - inner ** 2) ",
        "test_imports": ["import math"],
        "test_list": [
            "assert math.isclose(ring_area(1), 9.4247779608)",
            "assert math.isclose(ring_area(0, 37), 4300.8403427644)",
        ],
    },
    {
        "source_file": "own.ipynb",
        "task_id": 3,
        "prompt": "Write a python function to list the digits of a number that are odd.",
        "code": (
            "def is_odd(digit):\n    return int(digit) % 2 == 1\n"
            "def odd_digits(number: int, *, as_text: bool = False) -> list:\n"
            "    found = [d for d in str(abs(number)) if is_odd(d)]\n"
            "    return found if as_text else [int(d) for d in found]"
        ),
        "test_imports": [],
        "test_list": [
            "assert odd_digits(123) == [1, 3]",
            "assert odd_digits(-9970244) == [9, 9, 7]",
            "assert set(odd_digits(5511, as_text=True)) == set(('5', '1'))",
        ],
    },
]


def keywords(env_id: str) -> dict[str, Any]:
    """What ``make(env_id)`` needs where its default rows are on the hub."""
    rows = {"coding/coop-humaneval-v0": COOP_ROWS, "coding/mbpp-v0": MBPP_ROWS}
    return {"data": rows[env_id]} if env_id in rows else {}


def arguments(env_id: str, folder: Path) -> list[str]:
    """The same for the command line: rows in a file."""
    if not (given := keywords(env_id)):
        return []
    path = folder / "rows.json"
    path.write_text(json.dumps(given["data"]), encoding="utf-8")
    return ["--arg", f"data={path}"]


#: For the first row: a helper and main parts that earn 4.0, 3.5 (one test fails), and less.
AUX = "def aux(n):\n    return n * n"
SOLVED = {"helper": AUX, "main": "def sum_of_squares(numbers):\n    return sum(aux(n) for n in numbers)"}
ALMOST = {"helper": AUX, "main": "def sum_of_squares(numbers):\n    return sum(aux(n) for n in numbers if 0 <= n < 9)"}
NOTHING = {"helper": "", "main": "I do not know."}

"""What is taken for the code of a response: hand-made responses, hostile ones, and properties."""

import pytest
from effort import at_most
from hypothesis import example, given
from hypothesis import strategies as st

from llm_marl_envs.sandbox.inside.extraction import extract
from llm_marl_envs.sandbox.inside.structure import inspect

LIMIT = 65_536
INCR = "def incr(x):\n    return x + 1"
OTHER = "def other(x):\n    return x - 1"


def fenced(*codes: str, info: str = "python", mark: str = "```") -> str:
    return "\n\nNext:\n\n".join(f"{mark}{info}\n{code}\n{mark}" for code in codes)


# -- responses that are code --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (INCR, INCR),
        (f"\n\n  \n{INCR}\n\n", INCR),
        ("\ufeff" + INCR, INCR),
        ("def incr(x):\r\n    return x + 1\r\n", INCR),
        ("def incr(x):\r    return x + 1\r", INCR),
        ("    def incr(x):\n        return x + 1\n", INCR),
        ("\tdef incr(x):\n\t\treturn x + 1", "def incr(x):\n\treturn x + 1"),
        ("incr = lambda x: x + 1", "incr = lambda x: x + 1"),
        ("x = 1  # no function at all", "x = 1  # no function at all"),
        ("", ""),
        (" \n\t\n", ""),
    ],
)
def test_a_response_that_is_code_is_taken_whole(response, code):
    assert extract(response, "incr") == code


@pytest.mark.parametrize(
    "code",
    [
        f'{INCR}\n\n\ndoc = """\n```python\n{OTHER}\n```\n"""',
        f"# ```\n# def incr(x): return 0\n# ```\n{INCR}",
        f'def incr(x):\n    """<think>\n    </think>\n    """\n    return x + 1\ns = """\n<think>\n</think>\n"""\n{INCR}',
        'def incr(x):\n    """\n    ```\n    >>> incr(1)\n    2\n    ```\n    """\n    return x + 1',
        "def incr(x):\n    return x.split('</think>')[-1]",
        f"{INCR}\n\nif __name__ == '__main__':\n    print(incr(int(input())))",
        f"import math\nONE = 1\n\nclass C:\n    pass\n\n@property\ndef f():\n    pass\n\n{INCR}",
    ],
)
def test_strings_and_comments_of_code_are_left_alone(code):
    assert extract(code, "incr") == code


# -- fences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("info", ["", "python", "py", "Python3", " python title=a.py", "{.python}"])
@pytest.mark.parametrize("mark", ["```", "~~~", "`````"])
def test_any_fence(info, mark):
    assert extract(f"Sure!\n\n{mark}{info}\n{INCR}\n{mark}\n\nIt's done.", "incr") == INCR
    assert extract(f"{mark}{info}\n{INCR}", "incr") == INCR
    assert extract(f"{mark}{info}\r\n" + INCR.replace("\n", "\r\n") + f"\r\n{mark}\r\n", "incr") == INCR


@pytest.mark.parametrize(
    ("response", "code"),
    [
        # The last block that defines the function, wherever it stands among others.
        (fenced(INCR, "print(incr(3))"), INCR),
        (fenced(INCR, "from solution import incr\nassert incr(1) == 2"), INCR),
        (fenced("def incr(x):\n    return 0", INCR), INCR),
        (fenced(INCR, OTHER), INCR),
        (fenced(INCR, "def f():\n    def incr(x): pass"), INCR),
        (fenced(INCR, "class A:\n    def incr(self): pass"), INCR),
        (fenced(INCR, "incr = 3"), INCR),
        (fenced(INCR, "incr(3"), INCR),
        (fenced("if True:\n    def incr(x):\n        return x + 1", "1"), "if True:\n    def incr(x):\n        return x + 1"),
        (fenced(INCR) + "\n" + fenced("pip install x", info="bash"), INCR),
        (fenced(INCR, mark="~~~") + "\n```\n4\n```", INCR),
        # None defines it: before a syntax error, then any Python, then anything.
        (fenced("def incr(x):\n    return x + 1\n\ndef more(", "x = 1"), "def incr(x):\n    return x + 1\n\ndef more("),
        (fenced(OTHER, "pip install x"), OTHER),
        (fenced("a b", "c d"), "c d"),
        # Fences that are forgotten, nested or blank.
        (f"```python\n{OTHER}\n```python\n{INCR}\n```", INCR),
        (f"```markdown\n```python\n{INCR}\n```\n```", INCR),
        (f"````\n```python\n{INCR}\n```\n````", INCR),
        (f"```python\n{INCR}\n```\n```\n```", INCR),
        (f"~~~\n```python\n{INCR}\n~~~\n```python\n{INCR}\n```", INCR),
        # Indented: in a list, in a docstring.
        ("1. So:\n\n   ```python\n   def incr(x):\n\n       return x + 1\n   ```\n", "def incr(x):\n\n    return x + 1"),
        ("- So:\n\t```\n\tdef incr(x):\n\t\treturn x + 1\n\t```", "def incr(x):\n\treturn x + 1"),
        ("```\n    def incr(x):\n        return x + 1\n```", INCR),
        ("```\n" + INCR + "\n  ```\nThat's it.", INCR),
        ("```\nx = (\n  ```\nThat's it.", "x = (\n  ```\nThat's it."),
        ("```\ndef incr(x):\n  '''\n  ```\n  2\n  ```\n  '''\n  return x\n```", "def incr(x):\n  '''\n  ```\n  2\n  ```\n  '''\n  return x"),
        # Python that is cut off is no less code for a fence in its docstring.
        ("def incr(x):\n    '''\n    ```\n    incr(1)\n    ```\n    '''\n    return (x", "def incr(x):\n    '''\n    ```\n    incr(1)\n    ```\n    '''\n    return (x"),
        ("\ufeff```python\n\ufeff" + INCR + "\n```", INCR),
    ],
)  # fmt: skip
def test_which_block(response, code):
    assert extract(response, "incr") == code


def test_each_function_is_found_in_its_own_block():
    response = fenced(INCR, OTHER, f"{INCR}\n\n{OTHER}\nboth = 1", "nothing")
    assert extract(response, "incr") == extract(response, "other") == f"{INCR}\n\n{OTHER}\nboth = 1"
    assert extract(fenced(INCR, OTHER), "incr") == INCR
    assert extract(fenced(INCR, OTHER), "other") == OTHER


# -- thinking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (f"<think>\nHm, {OTHER}\n</think>\n\n{INCR}", INCR),
        (f"<think></think>{INCR}", INCR),
        (f"<think>\n{fenced('def incr(x): return 0')}\n</think>\n{fenced(INCR)}", INCR),
        (f"So ```python\ndef incr(x): wrong\n``` it is.\n</think>\n{INCR}", INCR),
        (f"<think>a<think>b</think>c</think>{INCR}", INCR),
        (f"<think>a</think>\n<think>b</think>\n{INCR}", INCR),
        (f"def incr(x): return 0\n</think>{INCR}\n<think>so</think>", INCR),
        (f"<think>\n{INCR}", ""),
        (f"<think>done</think>\n<think>\n{INCR}", ""),
        (f"Well.\n{fenced(INCR)}\n<think>\nmore", INCR),
        (f"{fenced(INCR)}\n<think>\n{fenced('def incr(x): return 0')}\n</think>", INCR),
        # Text about the tags is no tag.
        (f"I leave out `<think>`.\n{fenced(INCR)}\nNo `</think>` either.", INCR),
        (fenced("def incr(s):\n    return s.split('</think>')[-1]"), "def incr(s):\n    return s.split('</think>')[-1]"),
        (fenced('import re\ndef incr(s):\n    return re.sub(r"<think>.*</think>", "", s)'), 'import re\ndef incr(s):\n    return re.sub(r"<think>.*</think>", "", s)'),
    ],
)  # fmt: skip
def test_thinking_is_no_code(response, code):
    assert extract(response, "incr") == code


# -- prose without fences -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (f"Sure! The function below adds one.\n\n{INCR}\n\nThis returns the next integer.\n", INCR),
        (f"It's easy:\n{INCR}\nIt isn't hard, is it?\nThe user's call is `incr(1)`.", INCR),
        (f"{INCR}\n\nThis is it.", INCR),
        (f"Here you are:\n\n{INCR}", INCR),
        (f"First we import math from the library:\n\nimport math\n\nONE = 1\n\n{INCR}\n\nclass A:\n    x = 1\n\nThat's all!", f"import math\n\nONE = 1\n\n{INCR}\n\nclass A:\n    x = 1"),
        (f"Use this:\n@cache\n{INCR}\nas you like.", f"@cache\n{INCR}"),
        (f"From here on:\nfrom math import sqrt\n{INCR}\n# the end\nBye bye.", f"from math import sqrt\n{INCR}\n# the end"),
        ("So it is:\nincr: object = lambda x: x + 1\nas promised.", "incr: object = lambda x: x + 1"),
        (f"{INCR}\n\nExplanation\n\nNote: important\n\nIt adds one.", INCR),
        # False starts and other code.
        (f"import of goods is free.\nclass of 2020\nx = 5 is wrong\nfrom me import this text\n{INCR}\nThat is it.", INCR),
        (f"Not this one:\n{OTHER}\nbut this one:\n{INCR}\nof course.", INCR),
        (f"A short one:\nincr = abs\nA long one:\n{INCR}\nThe end of it.", INCR),
        (f"{OTHER}\n\nand then\n\n{INCR}\n\nas said.", INCR),
    ],
)  # fmt: skip
def test_code_between_prose(response, code):
    assert extract(response, "incr") == code


@pytest.mark.parametrize(
    "response",
    [
        "I cannot do that, since it's wrong.",
        "def incr(x)\n    return x + 1",
        f"{INCR}\n\ndef more(x:",  # a program with an error, not code before prose
        f"{INCR}\n\nimport math as\nprint(1)",
        f"{INCR}\n\nfor i in range(3) print(i):\n    pass",
        f"{INCR}\nvalue = = 3",
        "Here:\n    def incr(x):\n        return x + 1\nis indented.",
        f"So: {OTHER}\nis what you want.",
        "def incr(x):\n    return (((((",
        "class Solution:\n    def incr(self, x):\n        return x\nThis is a class.",
        f"\0{INCR}",
        'def incr(x):\n    return "\ud800"',
    ],
)
def test_no_repair(response):
    """What is no program stays as it is, so that its error is reported."""
    assert extract(response, "incr") == response


def test_the_rest_of_a_broken_line_is_not_joined():
    assert extract(fenced("def incr(x):\n    return x +\n    1"), "incr") == "def incr(x):\n    return x +\n    1"


# -- hostile text -------------------------------------------------------------------------------------------------

HOSTILE = {
    "parentheses": "def incr(x):\n    return " + "(" * 60_000,
    "minus": "def incr(x):\n    return " + "-" * 60_000 + "x",
    "sum": "def incr(x):\n    return " + "+".join("x" * 30_000),
    "nulls": "\0" * LIMIT,
    "surrogates": "\ud800\n" * (LIMIT // 2),
    "fences": "```\n" * (LIMIT // 4),
    "fences with info": "```python\n" * (LIMIT // 10),
    "blocks": "```\nx\n" * (LIMIT // 6),
    "broken blocks": "```python\n(\n" * (LIMIT // 12),
    "a fence and blanks": "```" + " " * 65_000 + "`",
    "an indented fence": " " * 65_000 + "```",
    "backticks": "`" * LIMIT,
    "mixed fences": "```\n~~~\n" * (LIMIT // 8),
    "opened thinking": "<think>" * (LIMIT // 7),
    "closed thinking": "</think>" * (LIMIT // 8),
    "both": "</think><think>" * (LIMIT // 15),
    "blank lines": "\n" * LIMIT,
    "blanks": " " * LIMIT,
    "carriage returns": "\r" * LIMIT,
    "byte order marks": "\ufeff" * LIMIT,
    "broken functions": "def incr(x): return x x\n" * (LIMIT // 24),
    "functions and prose": "def incr(x):\n    return x\nthis is prose\n" * (LIMIT // 40),
    "prose with apostrophes": "The user's function isn't there.\n" * (LIMIT // 33),
    "open strings": "x = '''\n" * (LIMIT // 8),
    "false starts": "x = 5 because\n" * (LIMIT // 14),
    "assignment without end": "x: " + "a" * 65_000,
    "words": "x " * (LIMIT // 2),
    "commas": "a," * (LIMIT // 2),
    "elif": "if a:\n  b\n" + "elif c:\n  b\n" * 900 + "else:\n  def incr(x): pass\n",
    "names": "".join(f"a{i + 1} = a{i}\n" for i in range(3_000)) + "incr = a3000",
    "calls": "".join(f"a{i + 1} = g(a{i}, a{i}, a{i})\n" for i in range(1_500)) + "incr = a1500",
    "itself": "incr = incr",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name):
    with at_most(1.5):  # measured: at most 0.35 s on a busy machine
        extract(HOSTILE[name], "incr")


def test_code_is_found_in_a_large_response():
    prose = "The user's function isn't there yet.\n" * 800
    assert extract(f"{prose}{INCR}\n\n{prose}", "incr") == INCR
    assert extract(f"{prose}{fenced(INCR)}\n{prose}", "incr") == INCR
    assert extract(f"{prose}</think>\n{INCR}", "incr") == INCR


# -- properties ---------------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()))
PIECES = st.lists(
    st.sampled_from([
        "```", "```python\n", "~~~", "\n", "\r\n", "    ", "\t", "<think>", "</think>", INCR, OTHER, "incr = lambda: 0\n",
        "(", "'''", "'", "\\", "#", "\0", "\ufeff", "\ud800", "import math\n", "It's prose. ", "else:\n", "x = 1\n", "`",
    ])
).map("".join)  # fmt: skip


@given(ANY_TEXT | PIECES)
def test_never_raises(text):
    assert isinstance(extract(text, "incr"), str)


@given(PIECES, st.sampled_from([INCR, f"{INCR}\n\n\n{OTHER}", "incr = abs"]), PIECES)
def test_what_was_found_is_found_again(before, code, after):
    found = extract(f"{before}{code}{after}", "incr")
    facts = inspect(("incr", found), [])
    if facts["main"]["defined"] and facts["together"]:
        assert extract(found, "incr") == found
        assert extract(f"<think>\n</think>\n{found}", "incr") == found or "think>" in found


PROSE = st.text(st.characters(codec="utf-8", exclude_characters="`~<\r\ufeff\0")).map(lambda text: f"{text}\n")
CODES = st.sampled_from([
    INCR,
    "incr = lambda x: x + 1",
    "import math\n\n\n@math.cache\ndef incr(x):\n    '''Doc.\n\n      - more\n    '''\n    return x + 1  # so",
    "try:\n    def incr(x):\n\treturn x\nexcept ValueError:\n    pass",
    "class A:\n    text = '<think>'\n\n\nasync def incr(x): return A",
])  # fmt: skip


@given(PROSE, CODES, PROSE, st.sampled_from(["```", "~~~", "````"]), st.sampled_from(["", "py", "python"]))
@example("'''\n", INCR, "'''\n", "```", "")
@example("def incr(x):\n", INCR, "", "```", "")
def test_fenced_code_is_found_exactly_whatever_prose_is_around(before, code, after, mark, info):
    assert extract(f"{before}{mark}{info}\n{code}\n{mark}\n{after}", "incr") == code
    assert extract(code, "incr") == code

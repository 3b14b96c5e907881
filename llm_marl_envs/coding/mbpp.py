"""# coding/mbpp

The hand-verified part of MBPP: short problems told in a sentence, each with a few asserts. All but the data is as in
`coding/humaneval`: agents write the helper `aux` and the function that the tests call at the same time.

| Property            | Value                                                                                 |
|---------------------|---------------------------------------------------------------------------------------|
| Import              | `llm_marl_envs.coding.mbpp`, or `make("coding/mbpp-v0")`                              |
| Agents              | `helper`, `main`; with `num_helpers=n`: `helper_1` to `helper_n`, `main`              |
| Observations        | text: `UnicodeText(0, 65536)`                                                         |
| Actions             | text: `UnicodeText(0, 65536)`                                                         |
| Reward range        | 0 to 4 a turn; with several turns and `turn_reward="offset"` -4 to 0                  |
| State               | text: every observation and action so far, no hidden test                             |
| Parallel and AEC    | `parallel_env(**kwargs)`, `env(**kwargs)`                                             |
| Rows                | 427: `google-research-datasets/mbpp:sanitized` (extra `hub`), or a file of its form   |
| Needs               | for scoring: Linux (x86_64, aarch64) with the sandbox; making and resetting: any system |

## Arguments

```python
parallel_env(data="google-research-datasets/mbpp:sanitized", split=None, fields=None, num_helpers=1, visible_tests=1,
             limits=None, isolation="strict", **env_kwargs)
```

- `data`: the hub id with its configuration, a local .jsonl, .json or .parquet file, or the rows themselves. A row needs
  the fields `prompt` (a sentence), `code` (a solution) and `test_list` (texts, an assert each), and may have `task_id`
  and `test_imports` (texts).
- `split`: with an optional slice. The hub set has `train` (120), `validation` (43), `test` (257) and `prompt` (7). None
  is `"train"`; with the default data `"eval"` is `"validation"`, which leaves `test` for a last word.
- all others: see the page of `coding/humaneval` and `CollaborationEnv`.

## Prompts

As on the page of `coding/humaneval`, with the sentence and the function's real signature. Name and signature are those
of the function in `code` that the tests call, so that an answer to the prompt is what the tests ask for. No test is
shown, so that a sentence may leave open what form of result is wanted; with `num_turns` > 1 and `feedback="diagnosis"`
a visible test that fails is.

## Reward, feedback

As on the page of `coding/humaneval`: the terms `helper_defined` 0.4, `main_defined` 0.6, `parses` 0.5, `tests` up to
1.0, `uses_helper` 0.5, `not_thin` 1.0 and `ignored` 0 or -0.5, with the maximum 4.0; `llm_marl_envs.coding.rewards` has
the rules. Besides the function under test, a problem's asserts may use the names of `test_imports` and of `code`.

## Example episode

```pycon
>>> from llm_marl_envs.coding import mbpp
>>> rows = [{
...     "task_id": 1,
...     "prompt": "Write a function to find the area of a ring.",
...     "code": "import math\\ndef ring_area(inner, outer=2):\\n    return math.pi * (outer ** 2 - inner ** 2)",
...     "test_imports": ["import math"],
...     "test_list": [
...         "assert math.isclose(ring_area(1), 9.4247779608)",
...         "assert math.isclose(ring_area(0, 1), 3.1415926536)",
...     ],
... }]
>>> env = mbpp.parallel_env(data=rows)
>>> observations, infos = env.reset(seed=0)
>>> print("\\n".join(observations["helper"].splitlines()[:7]))
This problem is to be solved in Python by the function `ring_area`.
<BLANKLINE>
Write a function to find the area of a ring.
<BLANKLINE>
```python
def ring_area(inner, outer=2):
```
>>> observations, rewards, terminations, truncations, infos = env.step({
...     "helper": "It is:\\n```python\\nfrom math import pi\\n\\ndef aux(radius):\\n    return pi * radius ** 2\\n```",
...     "main": "def ring_area(inner, outer=2):\\n    return aux(outer) - aux(inner)",
... })
>>> infos["main"]["details"]["passed"], infos["main"]["details"]["helper_called"], rewards["main"]
(2, {'aux': True}, 4.0)

```

## Data and licences

MBPP (Austin et al. 2021, arXiv 2108.07732; CC BY 4.0) is downloaded from its own place and is not part of this package.
`python -m llm_marl_envs check-data coding/mbpp-v0 --data FILE` runs its solutions against its tests: 423 of 427 reach
full marks. The solutions of 737, 787 and 794 return a match object, which is no value that the sandbox hands to a test
(a program that returns `True` and `False` passes); that of 123 may need more than the default 2 seconds of processor
time.

## Version history

- v0: first version. Until a first release, results may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import parallel_to_aec

from ..env import CollaborationEnv
from .problems import Row, Source, from_mbpp, load_problems
from .tasks import CodingTask

if TYPE_CHECKING:
    from ..sandbox.programs import Limits

NAME = "coding/mbpp"
DATA = "google-research-datasets/mbpp:sanitized"

SOURCE = Source(
    data=DATA,
    train="train",
    held_out="validation",
    fields=("prompt", "code"),
    convert=from_mbpp,
)


def parallel_env(
    data: str | Path | Iterable[Row] = DATA,
    split: str | None = None,
    fields: Mapping[str, str] | None = None,
    num_helpers: int = 1,
    visible_tests: int | str = 1,
    limits: Limits | Mapping[str, float] | None = None,
    isolation: str = "strict",
    **env_kwargs: Any,
) -> CollaborationEnv:
    """The environment; see the module's docstring for the arguments.

    Raises:
        ConfigError: an argument is out of range.
        DataError: the rows cannot be used.
        MissingDependencyError: a hub id without the extra ``hub``.
    """
    task = CodingTask(NAME, num_helpers, visible_tests, limits, isolation)
    return CollaborationEnv(task, load_problems(SOURCE, data, split, fields), **env_kwargs)


def env(**kwargs: Any) -> AECEnv:
    """The same environment with one agent acting after the other, as PettingZoo's AEC API has it."""
    return parallel_to_aec(parallel_env(**kwargs))

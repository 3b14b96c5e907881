"""# coding/coop-humaneval

CoopHumanEval: problems in the form of HumanEval that fall into two parts, so that a helper function is of real use. All
but the data is as in `coding/humaneval`: agents write the helper `aux` and the entry point at the same time.

| Property            | Value                                                                                 |
|---------------------|---------------------------------------------------------------------------------------|
| Import              | `llm_marl_envs.coding.coop_humaneval`, or `make("coding/coop-humaneval-v0")`          |
| Agents              | `helper`, `main`; with `num_helpers=n`: `helper_1` to `helper_n`, `main`              |
| Observations        | text: `UnicodeText(0, 65536)`                                                         |
| Actions             | text: `UnicodeText(0, 65536)`                                                         |
| Reward range        | 0 to 4 a turn; with several turns and `turn_reward="offset"` -4 to 0                  |
| State               | text: every observation and action so far, no hidden test                             |
| Parallel and AEC    | `parallel_env(**kwargs)`, `env(**kwargs)`                                             |
| Rows                | 82 problems: `OpenMLRL/CoopHumanEval` (extra `hub`), or a file of its form            |
| Needs               | for scoring: Linux (x86_64, aarch64) with the sandbox; making and resetting: any system |

## Arguments

```python
parallel_env(data="OpenMLRL/CoopHumanEval", split=None, fields=None, num_helpers=1, visible_tests=1, limits=None,
             isolation="strict", **env_kwargs)
```

- `data`: the hub id, a local .jsonl, .json, .csv or .parquet file, or the rows themselves. A row needs the fields
  `prompt`, `entry_point` and `test`, and may have `task_id` and `canonical_solution`; the hub set has no solutions.
- `split`: with an optional slice. With the default data, None is `"train[16:]"` and `"eval"` is `"train[:16]"`, the
  slices of the paper, which share no problem; with other data, None is `"train"`. An early version of the hub set
  calls its only split `test`.
- all others: see the page of `coding/humaneval` and `CollaborationEnv`.

## Prompts, reward, feedback

As on the page of `coding/humaneval`: the terms `helper_defined` 0.4, `main_defined` 0.6, `parses` 0.5, `tests` up to
1.0, `uses_helper` 0.5, `not_thin` 1.0 and `ignored` 0 or -0.5, with the maximum 4.0; `llm_marl_envs.coding.rewards` has
the rules.

## Example episode

```pycon
>>> from llm_marl_envs.coding import coop_humaneval
>>> rows = [{
...     "task_id": "Mine/0",
...     "entry_point": "sum_of_squares",
...     "prompt": "def sum_of_squares(n):\\n    '''The sum of the squares of the digits of n.'''\\n",
...     "test": "def check(candidate):\\n    assert candidate(12) == 5\\n    assert candidate(-30) == 9",
... }]
>>> env = coop_humaneval.parallel_env(data=rows, reward_mode="individual")
>>> observations, infos = env.reset(seed=0)
>>> print(observations["main"])
Solve this problem in Python by the function `sum_of_squares`.
<BLANKLINE>
```python
def sum_of_squares(n):
    '''The sum of the squares of the digits of n.'''
```
<BLANKLINE>
Another programmer writes a helper function `aux(...)` for this, at the same time as you write. You may call it: do \
not define `aux(...)` yourself, and do more in `sum_of_squares` than pass on a result. Write the whole function \
`sum_of_squares`. Answer with Python code only.
>>> observations, rewards, terminations, truncations, infos = env.step({
...     "helper": "def aux(n):\\n    return [int(digit) for digit in str(n)]",
...     "main": "def sum_of_squares(n):\\n    return sum(digit ** 2 for digit in aux(n))",
... })
>>> infos["main"]["terms"]["tests"], infos["main"]["details"]["visible"][0]["outcome"]
(0.5, 'passed')
>>> infos["main"]["score"], {agent: round(reward, 2) for agent, reward in rewards.items()}
(3.5, {'helper': 1.65, 'main': 1.85})

```

The hidden second test fails, since the helper did not think of the minus sign.

## Data and licences

The hub set `OpenMLRL/CoopHumanEval` (from arXiv 2508.04652; Apache-2.0 by its card) is downloaded from its own place
under its own terms and is not part of this package. It has no reference solutions, so that `check-data` reports its
rows as unchecked.

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
from .problems import Row, Source, from_humaneval, load_problems
from .tasks import CodingTask

if TYPE_CHECKING:
    from ..sandbox.programs import Limits

NAME = "coding/coop-humaneval"
DATA = "OpenMLRL/CoopHumanEval"

#: Slices of arXiv 2508.04652.
SOURCE = Source(
    data=DATA,
    train="train[16:]",
    held_out="train[:16]",
    fields=("prompt", "entry_point", "test"),
    convert=from_humaneval,
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

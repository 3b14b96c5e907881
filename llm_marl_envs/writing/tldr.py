"""# writing/tldr

Two agents summarise the same post at the same time, without seeing each other's text: one briefly, one at length.
The reward holds the two texts against each other, so that neither agent can earn it alone.

| Property            | Value                                                                   |
|---------------------|-------------------------------------------------------------------------|
| Import              | `llm_marl_envs.writing.tldr`, or `make("writing/tldr-v0")`              |
| Agents              | `summarizer` (c1 below), `elaborator` (c2)                              |
| Observations        | text: `UnicodeText(0, 65536)`                                           |
| Actions             | text: `UnicodeText(0, 65536)`                                           |
| Reward range        | 0 to 3 (2.98 can be reached), plus the weight of `grounding`; one turn  |
| State               | text: every observation and action so far                               |
| Parallel and AEC    | `parallel_env(**kwargs)`, `env(**kwargs)`                               |
| Rows                | packaged posts (48 `train`, 16 `eval`), a file, or `trl-lib/tldr`       |

## Arguments

```python
parallel_env(data="package:tldr", split="train", fields=None, grounding=0.0, levels="paper", **env_kwargs)
```

- `data`: `"package:tldr"`, a local .jsonl, .json, .csv or .parquet file, a hub id (`"trl-lib/tldr"`, needs the extra
  `hub`), or the rows themselves. A row needs the field `prompt`: the post. A reference summary (`completion`) may
  stand beside it and is used by nothing here: the reward needs no reference, and no agent ever sees it.
- `split`: with an optional slice, such as `"train[:1000]"`, the part of the hub set that the paper trains on.
- `fields`: renames columns, such as `{"prompt": "body"}`.
- `grounding`: weight of a further term which the post must support; see below. 1 is a good value.
- `levels`: `"paper"` or `"live"`. Paper and the peer's live code agree on this task, so both names give the same
  numbers here (on `writing/arxiv` they differ). Or a `Levels` of your own.
- all others: see `CollaborationEnv` (`num_turns`, `reward_mode`, `feedback`, `history`, ...).

## Prompts

The first observation is the post and then what to write. The words of the prompts are ours; the limits in them come
from the constants in use. A trailing `TL;DR:`, with which the posts of the hub set end, is cut off.

## Reward

Four levels; one that fails stops, and the terms after it stay 0. c1 and c2 are the two texts.

1. `length`: both have 8 to 256 whitespace-separated words: +0.5. Otherwise the reward is 0.
2. `length_ratio`, r = characters(c2) / characters(c1): +1 for 1.6 <= r <= 3.2; linear from 0 at 1.1 and back to 0 at
   5.0; beyond these it stops.
3. `unique_ratio`, u = unique words(c2) / unique words(c1): +0.5 for u >= 2.0; linear from 0 at 1.3; below it stops.
4. `transitions`: 0.4 T, where T = min(1, 0.4 + 0.05 (k - 1)) for k of 12 categories of transition words in c2, and 0
   for none; and `jaccard`: 0.6 J, where J = min(j, 0.03) / 0.03 for the Jaccard index j of both texts' unique words
   without stop words.

Unique words are lower-cased and include stop words. Transition words match as whole words: "sofa" holds no "so". The
lexicon (`LEXICON`) and the stop words (`STOP_WORDS`) are stated in `llm_marl_envs.writing.metrics`, with what counts as
a word. With all 12 categories T is 0.95, so at most 2.98 can be reached; percentages are of 3, as in the paper.

`reward_mode="individual"`: `transitions` goes to the elaborator, whose text it is measured on; each of the other four
terms is halved, since it takes both texts. Largest parts: summarizer 1.3, elaborator 1.7.

### Grounding

The four levels never look at the post: a list of linking words, or the partner's text with a tail, can earn nearly
all of 3. `grounding=w` adds the term `grounding` = w sqrt(g1 g2), counted where level 4 is reached, so that the range
becomes 0 to 3 + w. Each g is a product of six factors from 0 to 1 that ordinary prose about the post keeps at or near
1: its content words occur in the post; it names what the post repeats most; it is not copied from the other agent or
from itself; it does not reproduce most of the post; it has the stop words of sentences; it has not more transitions
than 1 + words/20, about one in a sentence. `llm_marl_envs.writing.metrics.grounding` gives each formula. The
geometric mean lets one stuffed text undo the pair. In individual mode the term is split in proportion to g1 and g2.
With w = 1 every kind of stuffed pair in the tests (keywords, word salad, the partner's text, the whole post, one
sentence over and over) loses to honest ones. It counts words and understands none: source words in a senseless order,
set among stop words, still pass.

## Example episode

```pycon
>>> from llm_marl_envs.writing import tldr
>>> post = (
...     "TITLE: My landlord wants my cat gone\\n\\nPOST: I have rented this flat for two years, always with my cat. "
...     "The landlord knew and never minded. Now he says the cat has to leave by Friday, because the new neighbour "
...     "has an allergy. My lease allows pets. Should I call a lawyer or talk to the neighbour?\\n\\nTL;DR:"
... )
>>> env = tldr.parallel_env(data=[{"prompt": post}], grounding=1.0)
>>> observations, infos = env.reset(seed=0)
>>> print(observations["summarizer"].split("\\n\\n")[-1])
Write a short summary of this post in one or two sentences, about 25 words (at least 8). Another writer makes a long \
summary of it. Yours is the short one. Write only the summary.
>>> observations, rewards, terminations, truncations, infos = env.step({
...     "summarizer": "Landlord wants my cat out by Friday over a neighbour's allergy, though my lease allows pets.",
...     "elaborator": "For two years I have kept a cat in my rented flat and the landlord never minded. Now, however, "
...     "he demands that it leave by Friday because someone next door is allergic. Since pets are allowed by the "
...     "lease, I wonder whether a lawyer is needed or a friendly talk with the neighbour.",
... })
>>> for term, value in infos["summarizer"]["terms"].items():
...     print(f"{term:12} {value:.3f}")
length       0.500
length_ratio 1.000
unique_ratio 0.500
transitions  0.220
jaccard      0.600
grounding    0.951
>>> round(rewards["summarizer"], 3), terminations["elaborator"], env.agents
(3.771, True, [])

```

## Data and licences

`package:tldr` was written for this project by a language model; the data card in the docs has its licence. The hub
set `trl-lib/tldr` (posts from Reddit with reference summaries; columns `prompt` and `completion`) is downloaded from
its own place under its own terms and is not part of this package.

## Version history

- v0: first version. Until a first release, results may change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import parallel_to_aec

from ..datasets import load_rows
from ..env import CollaborationEnv
from .levels import Levels, WritingTask

DATA = "package:tldr"

#: Public TL;DR task of the peer's environments; the paper (arXiv 2508.04652) and the live code agree.
PAPER = Levels(
    words=(8, 256),
    ratio_best=(1.6, 3.2),
    ratio_accepted=(1.1, 5.0),
    unique_best=(2.0, float("inf")),
    unique_accepted=(1.3, float("inf")),
    jaccard_cap=0.03,
    transition_texts=(1,),
    target_words=(25, 65),
)

_TLDR = re.compile(r"tl;?dr:?$", re.IGNORECASE)
_LABEL = re.compile(r"^(?:SUBREDDIT|TITLE|POST): ?", re.MULTILINE)


def strip_cue(post: str) -> str:
    """The post without the trailing "TL;DR:" that asks a model to go on."""
    post = post.strip()
    # Only the end is searched, so that a long run of blanks costs nothing.
    found = _TLDR.search(post, max(0, len(post) - 8))
    return post[: found.start()].rstrip() if found and post[: found.start()].strip() else post


class TldrTask(WritingTask):
    """A short and a long summary of one post; the module's docstring is its page."""

    name = "writing/tldr"
    agents = ("summarizer", "elaborator")
    fields = ("prompt",)
    presets = {"paper": PAPER, "live": PAPER}

    def source(self, row: Mapping[str, Any]) -> str:
        return _LABEL.sub("", strip_cue(row["prompt"]))

    def prompt(self, row: Mapping[str, Any], agent: str) -> str:
        limits = self.levels
        short, long = limits.target_words
        low, high = limits.ratio_best
        if agent == self.agents[0]:
            request = (
                f"Write a short summary of this post in one or two sentences, about {short} words "
                f"(at least {limits.words[0]}). Another writer makes a long summary of it. Yours is the short one. "
                "Write only the summary."
            )
        else:
            request = (
                f"Write a long summary of this post, about {long} words (at most {limits.words[1]}). Another writer "
                f"makes a short summary of it. Yours must be {low:g} to {high:g} times as long, with at least "
                f"{limits.unique_best[0]:g} times as many different words. Join the sentences with words such as: "
                "because, however, for example, as a result. Write only the summary."
            )
        return f"{strip_cue(row['prompt'])}\n\n{request}"


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
    task = TldrTask(levels, grounding)
    return CollaborationEnv(task, load_rows(data, split=split, fields=fields, required=task.fields), **env_kwargs)


def env(**kwargs: Any) -> AECEnv:
    """The same environment with one agent acting after the other, as PettingZoo's AEC API has it."""
    return parallel_to_aec(parallel_env(**kwargs))

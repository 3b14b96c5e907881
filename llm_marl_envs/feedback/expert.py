"""``expert``: an edit of the agent's last response, proposed by a callable: a stronger model behind an API, or a
person.

    make("coding/humaneval-v0", num_turns=2, feedback="expert", feedback_kwargs={"propose": ask})
    make("coding/humaneval-v0", num_turns=2, feedback="expert", feedback_kwargs={"propose": "openai:NAME@URL"})

``ask(question) -> edit`` gets one text: what the agent was asked, what every agent answered last, and the diagnosis of
their score. It sees no more than agents may: no hidden tests, no references. ``openai:NAME@URL`` is a model behind an
endpoint, asked as it samples by itself (:mod:`llm_marl_envs.integrations.openai`: options, where the key comes from).

Episodes with an expert are NOT reproducible from a seed, unless the callable is: the same question may get another
answer on another day. Within a run, answers are kept by transcript, so that clones and replayed branches of an episode
are told the same, and nothing is asked twice. A copy made by pickling takes the answers so far along.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from ..arguments import at_least
from ..errors import ConfigError
from ..integrations.endpoint_spec import PREFIX
from ..integrations.openai import Endpoint
from ..tables import load_object
from ..task import Score, Transcript
from .diagnosis import diagnosis
from .revise import REQUEST

Propose = Callable[[str], str]
_Key = tuple[Any, ...]


class Expert:
    """A feedback function that asks an expert.

    Args:
        propose: ``question -> edit``, ``"package.module:function"``, or ``"openai:NAME@URL"``. It may be called from
            several threads, though never twice at once for one transcript. What it raises ends the step.
        keep: how many answers are kept, the newest ones.

    Raises:
        ConfigError: ``propose`` is no function and no endpoint, or ``keep`` is out of range.
        MissingDependencyError: an endpoint, and the package ``openai`` is not installed.
    """

    def __init__(self, propose: str | Propose, keep: int = 10_000):
        if isinstance(propose, str):
            propose = Endpoint(propose) if propose.startswith(PREFIX) else load_object(propose)
        if not callable(propose):
            raise ConfigError(
                f"propose must be a function, 'package.module:function' or 'openai:NAME@URL', not {propose!r}."
            )
        at_least("keep", keep, 1)
        self._propose: Propose = propose
        self._keep = keep
        self._answers: OrderedDict[_Key, str] = OrderedDict()
        self._pending: dict[_Key, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, row: Mapping[str, Any], transcript: Transcript, score: Score, agent: str) -> str:
        turns = tuple(tuple(sorted(turn.actions.items())) for turn in transcript)
        edit = self._ask((row["id"], agent, turns), question(row, transcript, score, agent))
        return f"An expert proposes this edit of your response:\n{edit}\n\n{REQUEST}"

    def _ask(self, key: _Key, text: str) -> str:
        with self._lock:
            if key in self._answers:
                return self._answers[key]
            pending = self._pending.setdefault(key, threading.Lock())
        with pending:  # an expert is slow: only those with the same transcript wait for it
            with self._lock:
                if key in self._answers:
                    return self._answers[key]
            answer = self._propose(text)
            if not isinstance(answer, str):
                raise ConfigError(f"The expert returned {type(answer).__name__}; it must return str.")
            with self._lock:
                self._answers[key] = answer
                self._pending.pop(key, None)
                while len(self._answers) > self._keep:
                    self._answers.popitem(last=False)
            return answer

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"propose": self._propose, "keep": self._keep, "answers": OrderedDict(self._answers)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["propose"], state["keep"])  # type: ignore[misc]
        self._answers.update(state["answers"])


def question(row: Mapping[str, Any], transcript: Transcript, score: Score, agent: str) -> str:
    """What the expert is asked."""
    last = transcript[-1]
    found = diagnosis(row, transcript, score, agent).removesuffix(REQUEST).rstrip()
    parts = [f"Agents solve a task together. The agent {agent!r} was told:\n{transcript[0].observations[agent]}"]
    parts += [f"The last response of {name!r}:\n{text}" for name, text in last.actions.items()]
    parts.append(found)
    parts.append(f"Propose an edited version of the response of {agent!r}. Answer with the edited response only.")
    return "\n\n".join(parts)

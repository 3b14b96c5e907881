"""From chat messages to prompt tokens, and from sampled tokens to the text that the environment gets.

A tokenizer with a chat template renders the messages with it, ready for the assistant's turn. One without (a base
model, ``tiny``) gets plain text: the messages' contents, a blank line between them, and one line break at the end; no
roles are written. Nothing is ever cut out of the middle of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
from transformers import PreTrainedTokenizerBase

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from .base import Message

OVERFLOW = ("error", "drop_oldest_turns")
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class PromptEncoder:
    """Turns messages into token ids for one tokenizer.

    Attributes:
        tokenizer: a Hugging Face tokenizer.
        limit: most tokens in a prompt; None for no limit.
        overflow: what happens to a longer one: ``"error"``, or ``"drop_oldest_turns"``, which keeps the leading system
            messages, the first message and the newest, and drops the oldest turns between them until it fits.
        template_kwargs: passed to the chat template, e.g. ``{"enable_thinking": False}``.
    """

    tokenizer: PreTrainedTokenizerBase
    limit: int | None = None
    overflow: str = "error"
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.overflow not in OVERFLOW:
            raise ConfigError(
                f"Unknown overflow {self.overflow!r}.{did_you_mean(self.overflow, OVERFLOW)} "
                f"Known: {', '.join(OVERFLOW)}."
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"A prompt may have {self.limit} tokens at most; the limit must be at least 1.")

    def encode(self, messages: Sequence[Message], agent: str) -> list[int]:
        """Token ids of the prompt, at least one.

        Raises:
            ConfigError: too long (the message names the agent, the count, the limit and the remedies), no tokens at
                all, or a chat template that refuses the messages.
        """
        if not messages:
            raise ConfigError(f"Agent {agent!r} was asked with no messages at all.")
        shortened = _shortened(messages) if self.overflow == "drop_oldest_turns" else iter(())
        ids = first = self._tokens(messages, agent)
        while self.limit is not None and len(ids) > self.limit:
            fewer = next(shortened, None)
            if fewer is None:
                raise self._too_long(agent, len(first), len(ids))
            ids = self._tokens(fewer, agent)
        return ids

    def _too_long(self, agent: str, tokens: int, left: int) -> ConfigError:
        what = f"The prompt of agent {agent!r} has {tokens} tokens, more than the limit of {self.limit}"
        if self.overflow == "drop_oldest_turns":
            return ConfigError(
                f"{what}, and still {left} with the oldest turns dropped. Raise max_prompt_tokens (on the command "
                "line --prompts.max_tokens; as far as the model's context allows), or shorten the prompts."
            )
        return ConfigError(
            f"{what}. Raise max_prompt_tokens (on the command line --prompts.max_tokens; as far as the model's "
            "context allows), shorten the environment's prompts, or, in an episode of several turns, set "
            "overflow='drop_oldest_turns' (--prompts.overflow)."
        )

    def text(self, messages: Sequence[Message], agent: str) -> str:
        """The prompt as text, before it is cut into tokens."""
        if not self.tokenizer.chat_template:
            return "\n\n".join(message["content"] for message in messages).rstrip("\n") + "\n"
        try:
            return self.tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                **self.template_kwargs,
            )
        except jinja2.TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ConfigError(
                f"The chat template of {self.tokenizer.name_or_path!r} refused the messages of agent {agent!r} "
                f"(roles: {roles}): {error}"
            ) from error

    def _tokens(self, messages: Sequence[Message], agent: str) -> list[int]:
        text = self.text(messages, agent)
        if self.tokenizer.chat_template:  # the template has written the special tokens already
            ids = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        else:
            ids = list(self.tokenizer(text)["input_ids"])
            if ids and ids[-1] == self.tokenizer.eos_token_id:  # some tokenizers end every text
                ids.pop()
        if not ids:
            raise ConfigError(f"The prompt of agent {agent!r} has no tokens: {text!r}")
        return ids

    def decode(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[str, str]:
        """The sampled tokens as ``(text, raw_text)``; see :class:`Response`.

        ``text`` is what follows the last ``</think>``. Where thinking began, in the response or at the end of the
        prompt, and did not end, there is no answer yet: it is empty.
        """
        raw = self._decode(token_ids)
        close = self.tokenizer.get_vocab().get(THINK_CLOSE)
        if close is not None and close in token_ids:
            # By token: where the mark is a special token, decoded text no longer shows it.
            last = len(token_ids) - 1 - list(token_ids)[::-1].index(close)
            return self._decode(token_ids[last + 1 :]).lstrip("\n"), raw
        if THINK_CLOSE in raw:
            return after_thinking(raw), raw
        began = self.tokenizer.decode(token_ids[:8]).lstrip().startswith(THINK_OPEN)
        began = began or self.tokenizer.decode(prompt_ids[-8:]).rstrip().endswith(THINK_OPEN)
        return ("" if began else raw), raw

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def after_thinking(raw: str) -> str:
    """What follows the last ``</think>``; "" where thinking began and did not end, the text itself without any."""
    if THINK_CLOSE in raw:
        return raw.rpartition(THINK_CLOSE)[2].lstrip("\n")
    return "" if raw.lstrip().startswith(THINK_OPEN) else raw


def _shortened(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Ever shorter versions of a conversation: the head, then what begins with a later and later assistant turn."""
    head = next((i for i, message in enumerate(messages) if message["role"] != "system"), 0) + 1
    for start in range(head + 1, len(messages)):
        if messages[start]["role"] == "assistant" or start == len(messages) - 1:
            yield [*messages[:head], *messages[start:]]


def prompt_limit(agent: str, context: int | None, new: int, wanted: int | None) -> int | None:
    """Most tokens of a prompt: what is asked for, and what the model's context leaves beside the response."""
    if context is None:
        return wanted
    if new >= context:
        raise ConfigError(
            f"max_new_tokens of agent {agent!r} is {new}, but its model's whole context is {context} tokens. Lower it."
        )
    return context - new if wanted is None else min(wanted, context - new)

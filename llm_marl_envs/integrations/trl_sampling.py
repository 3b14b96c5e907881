"""The trained agent's side of a ``TeamRollout``: conversations as tokens, and TRL's own sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

if TYPE_CHECKING:
    from .trl import Episode

_MARK = "@@response@@"


class Sampler:
    """Writes the trained agent's sequences with the tokenizer and the generation of one ``GRPOTrainer``."""

    def __init__(self, trainer: Any):
        self.trainer = trainer
        self.tokenizer = trainer.processing_class

    def sample(self, episodes: Sequence[Episode]) -> list[str]:
        """Extend each episode's sequence by what the agent was told and by a response to it; return the responses."""
        if not episodes:
            return []
        for episode in episodes:
            messages = episode.messages(episode.agent)
            if len(messages) == 1:
                episode.prompt_ids = self._prompt(messages)
                continue
            told = self._told(messages[-1]["content"])
            last = episode.completion_ids[-1]
            if last in self.trainer.eos_token_ids and told[:1] == [last]:
                told = told[1:]  # the template writes the end-of-text token that was sampled already
            episode.completion_ids += told
            episode.mask += [0] * len(told)
        # TRL's own generation, so that sampling settings, adapters and wrapped models are treated as in its other runs.
        sampled, _ = self.trainer._generate_single_turn(
            [episode.prompt_ids + episode.completion_ids for episode in episodes], None, {}, 1
        )
        for episode, ids in zip(episodes, sampled, strict=True):
            episode.completion_ids += ids
            episode.mask += [1] * len(ids)
        return [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in sampled]

    def _prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        if self.tokenizer.chat_template:
            return self._ids(self._rendered(messages))
        ids = list(self.tokenizer(messages[0]["content"].rstrip("\n") + "\n")["input_ids"])
        return ids[:-1] if ids[-1:] == [self.tokenizer.eos_token_id] else ids  # some tokenizers end every text

    def _told(self, told: str) -> list[int]:
        """The tokens between a response and the next one. Only what follows a response in the rendered conversation is
        taken, so that the tokens before it stay exactly those that were sampled."""
        if not self.tokenizer.chat_template:
            return self._ids("\n\n" + told.rstrip("\n") + "\n")
        turns = [("user", "..."), ("assistant", _MARK), ("user", told)]
        text = self._rendered([{"role": role, "content": content} for role, content in turns])
        _, mark, after = text.partition(_MARK)
        if not mark:
            raise ConfigError("The chat template does not write an assistant's message as it is: play single turns.")
        return self._ids(after)

    def _rendered(self, messages: Sequence[Mapping[str, Any]]) -> str:
        return self.tokenizer.apply_chat_template(
            list(messages),
            tokenize=False,
            add_generation_prompt=True,
            chat_template=self.trainer.chat_template,
            **self.trainer.chat_template_kwargs,
        )

    def _ids(self, text: str) -> list[int]:
        """Of text in which the special tokens are written already, or that stands inside a sequence."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

"""Write what both sides read: a model in a plain Hugging Face folder, and posts. ``training.py`` runs it once.

    python tests/benchmarks/training_model.py FOLDER MODEL PROMPT_TOKENS

The model has no end-of-text token: neither its generation_config nor its tokenizer names one. So a response can end
nowhere but at its last token, on both sides and without a setting of either. Its padding token is one that it never
writes (the peer cuts answers at the first padding token).

Posts are those packaged for ``writing/tldr-v0``, each cut to its first words, so that the prompts of its two agents,
chat template included, have PROMPT_TOKENS tokens on average.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from llm_marl_baselines.policies import models
from llm_marl_baselines.policies.prompts import PromptEncoder
from llm_marl_envs import make

NEVER_WRITTEN = "<empty_output>"  # a special token of SmolLM2 that its instruction tuning does not use


def write_model(folder: Path, name: str) -> PromptEncoder:
    """Save the model and its tokenizer; returns what turns messages into prompts."""
    model, tokenizer = models.load(name, "float32", "cpu")
    if NEVER_WRITTEN in tokenizer.get_vocab():
        tokenizer.pad_token = NEVER_WRITTEN
    tokenizer.eos_token = None
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = None, tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return PromptEncoder(tokenizer)


def write_posts(path: Path, encoder: PromptEncoder, wanted: int, count: int = 16) -> None:
    """Write posts whose prompts have as many tokens as is wanted, or all of their words."""
    env = make("writing/tldr-v0")
    task = env.task

    def size(row: dict[str, str]) -> float:
        prompts = [task.prompt(row, agent) for agent in task.agents]
        lengths = [len(encoder.encode([{"role": "user", "content": text}], "")) for text in prompts]
        return sum(lengths) / len(lengths)

    lines = []
    for index in range(count):
        row = dict(env.rows[index])
        words = row["prompt"].removeprefix("TITLE: ").split()
        least = 1
        while least < len(words) and size({**row, "prompt": " ".join(words[: least + 1])}) <= wanted:
            least += 1
        lines.append(json.dumps({**row, "prompt": " ".join(words[:least])}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    folder, name, tokens = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    write_posts(folder / "posts.jsonl", write_model(folder, name), tokens)


if __name__ == "__main__":
    main()

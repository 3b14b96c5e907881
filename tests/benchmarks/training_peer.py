"""One timed run of MAGRPO with CoMLRL, in a process of its own and an environment of its own. ``training.py`` starts it.

    python tests/benchmarks/training_peer.py '{"model": ..., ...}'     # prints one line of JSON

Keys: model, posts (a file), rows (prompts of an update: CoMLRL plays one prompt at a time and collects them in a
buffer of this size), group, tokens, steps, threads. CoMLRL's own trainer trains; a subclass of it stops the time of
the three methods of which its step consists. Loading and warm-up (one prompt, with an update) are left out. What is
not the default is said at ``main``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from comlrl.trainers.reinforce.magrpo import MAGRPOConfig, MAGRPOTrainer
from training_work import clock, memory, posts, read_rows, score
from transformers import AutoTokenizer


class TimedTrainer(MAGRPOTrainer):
    """CoMLRL's trainer, which notes how long sampling, rewards and updates take, and what was sampled."""

    def start(self) -> None:
        names = ("_generate_completions", "_compute_rewards", "_update_from_samples")
        self.seconds = {name: [0.0, 0.0] for name in names}  # by the wall, and of processor time
        self.lengths: list[int] = []
        self.empty = 0

    def _timed(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        begun = clock()
        result = method(*args, **kwargs)
        for which, (before, after) in enumerate(zip(begun, clock(), strict=True)):
            self.seconds[method.__name__][which] += after - before
        return result

    def _generate_completions(self, *args: Any, **kwargs: Any) -> Any:
        found = self._timed(super()._generate_completions, *args, **kwargs)
        self.lengths += [len(tokens) for tokens in found["completion_input_ids"][0]]
        self.empty += sum(not text.strip() for text in found["completions"][0])
        return found

    def _compute_rewards(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed(super()._compute_rewards, *args, **kwargs)

    def _update_from_samples(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed(super()._update_from_samples, *args, **kwargs)


def main() -> None:
    """What differs from the defaults of CoMLRL 1.4.3: one turn; sampling at temperature 1 without top-p and top-k (as
    ours); the paper's advantages, not divided by the standard deviation; no evaluation; float32."""
    wanted = json.loads(sys.argv[1])
    torch.set_num_threads(wanted["threads"])
    tokenizer = AutoTokenizer.from_pretrained(wanted["model"])
    env = posts(wanted["posts"])

    def formatter(agent: str) -> Callable[[dict[str, Any]], str]:
        def prompt(row: dict[str, Any]) -> str:
            text = env.task.prompt(row, agent)
            if tokenizer.chat_template is None:
                return text + "\n"
            message = [{"role": "user", "content": text}]
            return tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)

        return prompt

    def reward(first: list[str], second: list[str], *, batch_items: list[dict[str, Any]]) -> list[float]:
        pairs = zip(batch_items, first, second, strict=True)
        agents = env.possible_agents
        return [score(row, dict(zip(agents, pair, strict=True))).total for row, *pair in pairs]

    torch.manual_seed(0)
    count = wanted["rows"] * (wanted["steps"] + 1)
    rows = read_rows(wanted["posts"])
    rows = [rows[n % len(rows)] for n in range(count)]
    config = MAGRPOConfig(
        num_turns=1,
        num_train_epochs=1,
        num_generations=wanted["group"],
        max_new_tokens=wanted["tokens"],
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        advantage_normalization=False,
        rollout_buffer_size=1,
        train_batch_size=wanted["rows"],
        eval_interval=0,
    )
    trainer = TimedTrainer(
        agent_model=wanted["model"],
        num_agents=2,
        tokenizer=tokenizer,
        model_config={"torch_dtype": torch.float32},
        train_dataset=rows[:1],
        formatters=[formatter(agent) for agent in env.possible_agents],
        reward_func=reward,
        args=config,
    )
    found: dict[str, Any] = {"loaded": memory()}
    trainer.start()
    trainer.train()
    trainer.start()
    trainer.train_dataset = rows[wanted["rows"] :]
    config.rollout_buffer_size = wanted["rows"]
    begun = clock()
    trainer.train()
    ended = clock()
    for which, name in enumerate(("", "_cpu")):
        found[f"update{name}"] = trainer.seconds["_update_from_samples"][which]
        found[f"rollout{name}"] = ended[which] - begun[which] - found[f"update{name}"]  # all that is no update
    found["methods"] = trainer.seconds
    found |= {"prompts": len(trainer.train_dataset), "tokens": sum(trainer.lengths)}
    found |= {"lengths": sorted(set(trainer.lengths)), "empty": trainer.empty, "memory": memory()}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("WANDB_MODE", "disabled")
    main()

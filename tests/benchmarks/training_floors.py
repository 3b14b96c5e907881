"""What the hardware and transformers do by themselves, in a process of its own. ``training.py`` starts it.

    python tests/benchmarks/training_floors.py '{"model": ..., "posts": ..., ...}'     # prints one line of JSON

Keys: model, posts, rows (starts; two prompts each), group, tokens, repeats, threads.

- ``gemm``: arithmetic rate of a product of two float32 matrices of 2048 x 2048, in GFLOP/s.
- ``generate``: seconds of bare ``model.generate`` for rows x 2 x group responses of ``tokens`` tokens each, where every
  distinct prompt is computed once and its cache expanded (``shared prefill``). Sampling as ours: temperature 1, whole
  vocabulary. No text is decoded, no log-probability is kept, no reward is computed. In four forms:
  ``base`` (one call, no adapter), ``base_by_agent`` (a call for each agent, as separate models need it), ``lora_by_agent``
  (a call for each agent, its adapter switched on) and ``lora_mixed`` (one call, rows with their own adapter).

A pass before that is not timed. The smallest of the repeats counts: it is a floor.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from training_work import posts
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from llm_marl_baselines.policies.bases import LLAMA_LIKE, Lora
from llm_marl_baselines.policies.prompts import PromptEncoder

SIZE = 2048


def main() -> None:
    wanted = json.loads(sys.argv[1])
    torch.set_num_threads(wanted["threads"])
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(wanted["model"])
    model = AutoModelForCausalLM.from_pretrained(wanted["model"], dtype=torch.float32).eval()
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    targets = list(LLAMA_LIKE) if names.issuperset(LLAMA_LIKE) else "all-linear"
    prompts = prompts_of(wanted, PromptEncoder(tokenizer))
    agents = list(prompts)
    ways: dict[str, Callable[[], None]] = {}
    together = [prompt for agent in agents for prompt in prompts[agent]]
    ways["base"] = lambda: generate(model, together, wanted)
    ways["base_by_agent"] = lambda: [generate(model, prompts[agent], wanted) for agent in agents]
    found: dict[str, Any] = {"gemm": gemm(), "generate": best(ways, wanted["repeats"])}
    lora = LoraConfig(task_type="CAUSAL_LM", r=Lora.rank, lora_alpha=Lora.alpha, target_modules=targets)
    adapted = PeftModel(model, lora, adapter_name=agents[0]).eval()
    for agent in agents[1:]:
        adapted.add_adapter(agent, lora)
    adapted.eval()

    def by_agent() -> None:
        for agent in agents:
            adapted.set_adapter(agent)
            generate(adapted, prompts[agent], wanted)

    which = [agent for agent in agents for _ in prompts[agent]]
    ways = {"lora_by_agent": by_agent, "lora_mixed": lambda: generate(adapted, together, wanted, which)}
    found["generate"] |= best(ways, wanted["repeats"])
    found["gemm"] = max(found["gemm"], gemm())
    print(json.dumps(found), flush=True)


def prompts_of(wanted: dict[str, Any], encoder: PromptEncoder) -> dict[str, list[list[int]]]:
    """Agent -> token ids of its prompts, the chat template included."""
    env = posts(wanted["posts"])
    rows = [env.rows[n % len(env.rows)] for n in range(wanted["rows"])]
    return {
        agent: [encoder.encode([{"role": "user", "content": env.task.prompt(row, agent)}], agent) for row in rows]
        for agent in env.possible_agents
    }


def gemm(seconds: float = 2.0) -> float:
    """GFLOP/s of a large product, the best of those that fit into the time."""
    a, b, out = (torch.rand(SIZE, SIZE) for _ in range(3))
    end, least = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        begun = time.perf_counter()
        torch.mm(a, b, out=out)
        least = min(least, time.perf_counter() - begun)
    return 2 * SIZE**3 / least / 1e9


def best(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Seconds of each, the least of some rounds in turn, after one that is not timed."""
    least = dict.fromkeys(ways, float("inf"))
    for number in range(repeats + 1):
        for name, way in ways.items():
            begun = time.perf_counter()
            way()
            if number:
                least[name] = min(least[name], time.perf_counter() - begun)
    return least


@torch.no_grad()
def generate(model: Any, prompts: list[list[int]], wanted: dict[str, Any], adapters: list[str] | None = None) -> None:
    """Sample ``group`` responses to each prompt; all but the last token of each prompt is computed once."""
    group, width = wanted["group"], max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])  # padded on the left; masked
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    own = {} if adapters is None else {"adapter_names": adapters}
    before = {"input_ids": ids[:, :-1], "attention_mask": mask[:, :-1], "position_ids": positions[:, :-1]}
    model(**before, past_key_values=cache, use_cache=True, logits_to_keep=1, **own)
    cache.batch_repeat_interleave(group)
    own = {} if adapters is None else {"adapter_names": [name for name in adapters for _ in range(group)]}
    sampled = model.generate(
        input_ids=ids.repeat_interleave(group, dim=0),
        attention_mask=mask.repeat_interleave(group, dim=0),
        past_key_values=cache,
        max_new_tokens=wanted["tokens"],
        do_sample=True,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        **own,
    )
    if sampled.shape != (len(prompts) * group, width + wanted["tokens"]):
        raise AssertionError(f"generate gave {tuple(sampled.shape)}: it must not stop early.")


if __name__ == "__main__":
    main()

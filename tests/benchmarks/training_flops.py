"""How many floating-point operations an update needs: counted from the model's shape and what was sampled.

A multiply-add counts as 2. Counted is the work that any program must do which computes each prompt once for its group:

    n = P + sum of (T - 1)              tokens fed for a group: its prompt, and its responses without their last tokens
    m = 1 + sum of (T - 1)              positions whose logits are needed
    pairs = P(P+1)/2 + sum over t of (P + t), t = 1 .. T - 1         (query, key) pairs of causal attention

    forward   = 2 body n + 2 hidden V m + 4 L heads head_size pairs      (scores, and the weighted sum of values)
    backward  = 2 body n + 2 hidden V m + 8 L heads head_size pairs      gradients of activations
    adapters  + 6 lora n                 forward, activations and weights of the adapters; frozen weights have none
    full      + 2 body n + 2 hidden V m  gradients of all weights

body: weights of the layers' matrices. lora: weights of one agent's adapter. Not counted: norms, activation functions,
softmax, AdamW, padding, and masked entries that a dense attention computes all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def update_flops(model: str, groups: Sequence[Mapping[str, Any]], lora: int | None) -> float:
    """Operations of one update.

    Args:
        model: its folder, with config.json of a Llama-like model.
        groups: ``prompt`` (tokens) and ``learned`` (tokens of each response) of each group.
        lora: weights of one adapter; None where all weights are trained.
    """
    c = json.loads((Path(model) / "config.json").read_text())
    hidden, layers, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    head = c.get("head_dim") or hidden // heads
    queries, keys = heads * head, (c.get("num_key_value_heads") or heads) * head
    body = layers * (2 * hidden * queries + 2 * hidden * keys + 3 * hidden * c["intermediate_size"])
    total = 0.0
    for group in groups:
        prompt, learned = group["prompt"], group["learned"]
        if not learned:
            continue
        rest = sum(length - 1 for length in learned)
        n, m = prompt + rest, 1 + rest
        pairs = prompt * (prompt + 1) / 2 + sum(prompt * (t - 1) + t * (t - 1) / 2 for t in learned)
        matrices = 2 * body * n + 2 * hidden * c["vocab_size"] * m
        total += 2 * matrices + 12 * layers * queries * pairs
        total += matrices if lora is None else 6 * lora * n
    return total

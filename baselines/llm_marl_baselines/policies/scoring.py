"""Log-probabilities of given responses, with gradients, in micro-batches.

Two layouts of the same computation:

- *plain*: one row for each response, its prompt in front of it;
- *packed*: one row for several responses, in which all that their prompts and they have in common stands once
  (:mod:`prefixes`). It is computed once, forward and backward, and its gradient is the sum over the responses. With G
  responses to a prompt, the prompt is shared; with the turns of a tree, the conversation that led to a branch.

The last token of a response is predicted and predicts nothing, so it is not fed. Logits are computed only where a token
of a response follows, and a few at a time (:mod:`heads`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from transformers import PreTrainedModel

from llm_marl_envs.errors import ConfigError

from . import heads
from .base import Scored
from .prefixes import Layout, attention_mask, lay_out, make_packs, micro_batches, padded
from .recomputing import recomputed

LOGIT_BUDGET = 1 << 27  # most logits in a micro-batch, for models that need all of them at once: 512 MB in float32
POSITIONS_FROM_MASK = ("bloom", "mpt", "falcon")  # models whose position bias is derived from a 2-D mask


def score(
    use: Callable[[], AbstractContextManager[PreTrainedModel]],
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    token_budget: int,
    packed: bool,
    linear_head: bool,
    grad: bool = True,
    recompute: bool = False,
    logit_budget: int = LOGIT_BUDGET,
) -> Iterator[Scored]:
    """Score each response after its prompt.

    Args:
        use: gives the model, in eval mode, with the right adapter switched on for the length of the context. It is
            entered once for each micro-batch, so that nothing stays switched while the caller works on the result.
        prompts: (B) token ids.
        responses: (B) token ids, at least one each.
        temperature: divides the logits, as at sampling; above 0.
        pad_id: any valid token.
        token_budget: most tokens, padding included, of a micro-batch; a response with its prompt may exceed it alone,
            or with others that share most of it (see :func:`prefixes.make_packs`).
        packed: the layout. Packed needs :func:`supports_packing`.
        linear_head: whether :func:`heads.has_linear_head`; without it a micro-batch's logits are there all at once.
        grad: whether gradients are recorded.
        recompute: keep no activations inside of layers for them; see :mod:`recomputing`.
        logit_budget: most logits of a micro-batch where they are there all at once, with the same exception.

    Yields:
        Micro-batches; every response is in exactly one.

    Raises:
        ConfigError: a temperature of 0, or a response without tokens.
    """
    if temperature <= 0:
        raise ConfigError(
            f"Responses cannot be scored at temperature {temperature}: greedy choices have no log-probability. "
            "Train with a temperature above 0."
        )
    for index, response in enumerate(responses):
        if len(response) == 0:
            raise ConfigError(f"Response {index} has no tokens: it was not sampled by a language model.")
    fed = [[*prompt, *response[:-1]] for prompt, response in zip(prompts, responses, strict=True)]
    with use() as model:
        if not (linear_head and heads.output_layer(model)):
            token_budget = min(token_budget, max(1, logit_budget // model.config.get_text_config().vocab_size))
        packs = make_packs(fed, token_budget, model.config.get_text_config().hidden_size, packed)
    for batch in micro_batches(packs, token_budget):
        layouts = [lay_out([fed[member] for member in pack.members]) for pack in batch]
        members = [member for pack in batch for member in pack.members]
        with (
            use() as model,
            torch.set_grad_enabled(grad),
            recomputed(model, use) if recompute and grad else nullcontext(),
        ):
            rows = [responses[member] for member in members]
            logprobs, mask, entropy = _score_layouts(model, layouts, rows, temperature, pad_id, linear_head)
        yield Scored(torch.tensor(members, device=logprobs.device), logprobs, mask, entropy)


def _score_layouts(
    model: PreTrainedModel,
    layouts: Sequence[Layout],
    responses: Sequence[Sequence[int]],
    temperature: float,
    pad_id: int,
    linear_head: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One forward pass over the layouts as rows (R, L); ``responses`` are those of their sequences, in order. Gives
    log-probabilities, mask and entropies (b, T)."""
    ids, positions = padded(layouts, pad_id)
    width = ids.shape[1]
    # Where in (R * L) the token stands that each response token follows: the last of the prompt, and so on.
    after = [
        row * width + columns[-len(response) :]
        for row, columns, response in zip(
            [row for row, layout in enumerate(layouts) for _ in layout.columns],
            [columns for layout in layouts for columns in layout.columns],
            responses,
            strict=True,
        )
    ]
    places, source = np.unique(np.concatenate(after), return_inverse=True)  # (M,), (N,)
    device = model.device
    given = {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": attention_mask(layouts, width, model.dtype, device),
        "position_ids": torch.from_numpy(positions).to(device),
        "use_cache": False,
    }
    tokens = torch.from_numpy(np.concatenate([np.asarray(response, dtype=np.int64) for response in responses]))
    sources = torch.from_numpy(source.reshape(-1)).to(device)
    layer = heads.output_layer(model) if linear_head else None
    if layer is not None:
        hidden = model.base_model(**given).last_hidden_state  # (R, L, D)
        at = torch.from_numpy(places).to(device)
        flat, entropy = heads.linear_head(
            hidden.reshape(-1, hidden.shape[-1])[at], layer.weight, layer.bias, sources, tokens.to(device), temperature
        )
    else:
        kept, inverse = np.unique(places % width, return_inverse=True)
        logits = model(**given, logits_to_keep=torch.from_numpy(kept).to(device)).logits  # (R, K, V)
        at = torch.from_numpy(places // width * len(kept) + inverse.reshape(-1)).to(device)
        flat, entropy = heads.from_logits(
            logits.reshape(-1, logits.shape[-1])[at], sources, tokens.to(device), temperature
        )
    lengths = torch.tensor([len(response) for response in responses], device=device)
    mask = torch.arange(int(lengths.max()), device=device)[None, :] < lengths[:, None]  # (b, T)
    empty = torch.zeros(mask.shape, dtype=flat.dtype, device=device)
    return empty.masked_scatter(mask, flat), mask, empty.masked_scatter(mask, entropy)


def supports_packing(model: PreTrainedModel) -> bool:
    """Whether the model obeys a 4-D mask and given positions, as packing needs.

    Sliding windows, linear attention and attention kernels without a dense mask rule it out. What a configuration does
    not tell is tried: two short responses to one prompt must get the same logits packed as alone, to within a small
    part of what leaking between them would change.
    """
    config = model.config.get_text_config()
    if getattr(config, "_attn_implementation", None) not in ("eager", "sdpa"):
        return False
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return False
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        return False
    if getattr(config, "alibi", False) or config.model_type in POSITIONS_FROM_MASK:
        return False
    size = config.vocab_size
    tokens = [(7 * i + 3) % size for i in range(14)]
    prompt, first, second = tokens[:4], tokens[4:9], tokens[9:14]

    def logprobs(before: list[int], responses: list[list[int]]) -> torch.Tensor:
        layout = lay_out([[*before, *response[:-1]] for response in responses])
        return _score_layouts(model, [layout], responses, 1.0, 0, False)[0][-1]

    with torch.no_grad():
        together = logprobs(prompt, [first, second])
        alone = logprobs(prompt, [second])
        leaked = logprobs([*prompt, *first[:-1]], [second])
    return bool((together - alone).abs().max() <= 0.05 * (leaked - alone).abs().max())

"""The model ``tiny``: two layers of random weights and an alphabet of 11 symbols, built in code in milliseconds.

It exists so that an algorithm can be seen to learn in a minute on a CPU. Two properties matter for that:

- untrained, it gives every symbol nearly the same probability, so that chance finds each answer about equally often;
- a low-rank adapter on its attention layers, with everything else frozen, can make it sure of any answer.

A small output layer would give the first and spoil the second. So the hidden state is cut in two halves: embeddings
write to the first, the output layer (which is large) reads the second, and at the start next to nothing carries over.
"""

from __future__ import annotations

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaRMSNorm

PAD, EOS, OTHER = "<pad>", "<eos>", "?"
SYMBOLS = (*"ABCD", *"1234")
VOCABULARY = (PAD, EOS, OTHER, *SYMBOLS)
HIDDEN_SIZE = 64
SEED = 20240607


def load_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the characters A-D and 1-4; any run of other characters is one token, ``?``.

    "Agent 2. Turn 1." has 6 tokens: A ? 2 ? 1 ?. There is no chat template and no beginning-of-text token.
    """
    vocabulary = {symbol: index for index, symbol in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=OTHER))
    known = "".join(SYMBOLS)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"[{known}]|[^{known}]+"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    # The wrapper is not told of `?`: it would count it as special and leave it out of decoded text.
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS)


def load_model() -> LlamaForCausalLM:
    """The model in float32, always with the same weights. The global random state is neither used nor changed."""
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=HIDDEN_SIZE,
        intermediate_size=2 * HIDDEN_SIZE,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        pad_token_id=VOCABULARY.index(PAD),
        eos_token_id=VOCABULARY.index(EOS),
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # the constructor draws weights; ours replace them
        model = LlamaForCausalLM(config)
    _keep_precision(model)
    generator = torch.Generator().manual_seed(SEED)
    half = HIDDEN_SIZE // 2
    # Standard deviations. Queries, keys and outputs keep the scale of what they read (1/sqrt of its size), so that
    # attention depends on order and an adapter on the values has a full effect; what is written at first is small.
    scales = {"q_proj": 0.125, "k_proj": 0.125, "o_proj": 0.125, "v_proj": 0.0005, "gate_proj": 0.125, "up_proj": 0.125}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            kind = name.split(".")[-2]
            if kind == "embed_tokens":
                parameter.normal_(0.0, 0.3, generator=generator)
                parameter[:, half:] = 0.0
            elif kind == "lm_head":
                parameter.normal_(0.0, 1.0, generator=generator)
                parameter[:, :half] = 0.0
            elif parameter.ndim == 2:
                parameter.normal_(0.0, scales.get(kind, 0.0005), generator=generator)
    return model.eval()


def _keep_precision(model: LlamaForCausalLM) -> None:
    """Llama's norms compute in float32 whatever comes in. torch's keep float64, for tests that compare to 1e-9."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, LlamaRMSNorm):
                setattr(module, name, torch.nn.RMSNorm(HIDDEN_SIZE, eps=child.variance_epsilon))

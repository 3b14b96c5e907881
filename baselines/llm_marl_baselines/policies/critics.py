"""Value functions on a language model: one adapter more on a base that is in memory already, and a linear head.

A critic reads a text as tokens and gives one number, from the last hidden state of the text's last token. Inside, it
predicts values of mean 0 and spread 1: the scale of the returns is learned apart (PopArt, arXiv 1602.07714), and when
it moves, the head moves against it, so that what was learned stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from transformers import PreTrainedModel

from llm_marl_envs.errors import ConfigError

from .. import parallel
from ..errors import NonFiniteError
from ..seeding import derive_seed
from .bases import Base, Lora
from .prefixes import Pack, micro_batches
from .recomputing import recomputed
from .weights import Learner, is_trained

DECAY = 0.99  # of the running mean and mean square of targets, per batch; starts are corrected for, as in Adam


class Critic:
    """A value function. To what keeps and trains weights it looks like a learner.

    Attributes:
        name: of it.
        base: the model below.
        weights: trained ones, and the scale of the returns (which no gradient moves).
    """

    def __init__(
        self, name: str, base: Base, lora: Lora, seed: int, actor: Learner | None = None, recompute: bool = False
    ):
        """``actor``: read with this learner's weights, and train them too, instead of an adapter of its own.
        ``recompute``: see :mod:`recomputing`."""
        self.name, self.base, self._actor, self._recompute = name, base, actor, recompute
        with actor.active() if actor is not None else nullcontext(base.model) as model:
            size, device = model.config.get_text_config().hidden_size, model.device
        wide = torch.promote_types(base.dtype, torch.float32)
        own: dict[str, torch.nn.Parameter] = {}
        if actor is None:
            self._adapter, own = base.add_adapter(lora, derive_seed(seed, "adapter", name))
        self.weight = torch.nn.Parameter(torch.zeros(size, dtype=wide, device=device))
        self.bias = torch.nn.Parameter(torch.zeros((), dtype=wide, device=device))
        self._before: list[torch.Tensor] = []
        # Sums of: targets, their squares, and of the weights of these sums.
        self.moments = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64, device="cpu"), requires_grad=False)
        self.weights = {**own, "head.weight": self.weight, "head.bias": self.bias, "moments": self.moments}

    def _active(self) -> AbstractContextManager[PreTrainedModel]:
        return self._actor.active() if self._actor else self.base.active(self._adapter)

    @property
    def scale(self) -> tuple[float, float]:
        """Mean and spread of the returns so far; (0, 1) before there were any."""
        total, squares, weight = self.moments.tolist()
        if weight == 0:
            return 0.0, 1.0
        mean = total / weight
        return mean, max(squares / weight - mean**2, 1e-4) ** 0.5

    @property
    def is_fresh(self) -> bool:
        """Whether it has not been given any targets yet."""
        return self.moments[2].item() == 0

    def adjust(self, targets: np.ndarray, weights: np.ndarray) -> None:
        """Take new targets into the scale, and keep every value as it was.

        The first targets set the scale, and nothing is kept: the critic has learned nothing yet. To stay at 0 it would
        have to start at minus mean / spread, and the optimiser would need thousands of steps to come back.
        """
        self._before = [tensor.detach().clone() for tensor in (self.moments, self.weight, self.bias)]
        fresh = self.is_fresh
        old_mean, old_spread = self.scale
        now = np.average(np.stack([targets, targets**2]), axis=1, weights=weights)
        new = torch.tensor([*now, 1.0], dtype=torch.float64)
        with torch.no_grad():
            self.moments.mul_(DECAY).add_((1 - DECAY) * new)
            if fresh:
                return
            mean, spread = self.scale
            self.weight.mul_(old_spread / spread)
            self.bias.copy_((old_spread * self.bias + old_mean - mean) / spread)

    def undo(self) -> None:
        """Take the last :meth:`adjust` back, whose targets have not been learned."""
        with torch.no_grad():
            for tensor, before in zip((self.moments, self.weight, self.bias), self._before, strict=False):
                tensor.copy_(before)
            self._before = []

    def read(
        self, texts: Sequence[np.ndarray], token_budget: int, grad: bool
    ) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Normalised values (b,) of the texts ``index`` (b,), in micro-batches within the budget of tokens; a single
        text may exceed it."""
        for rows in micro_batches([Pack((i,), len(text)) for i, text in enumerate(texts)], token_budget):
            index = [i for row in rows for i in row.members]
            yield np.array(index), self._forward([texts[i] for i in index], grad)

    def _forward(self, texts: Sequence[np.ndarray], grad: bool) -> torch.Tensor:
        lengths = np.array([len(text) for text in texts])
        ids = np.full((len(texts), lengths.max()), self.base.pad_id, dtype=np.int64)  # (b, T)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        with (
            self._active() as model,
            torch.set_grad_enabled(grad),
            recomputed(model, self._active) if self._recompute and grad else nullcontext(),
        ):
            device = model.device
            hidden = model.base_model(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=torch.from_numpy(mask).long().to(device),
                use_cache=False,
            ).last_hidden_state  # (b, T, D)
            last = hidden[torch.arange(len(texts), device=device), torch.from_numpy(lengths - 1).to(device)]
            return last.to(self.weight.dtype) @ self.weight + self.bias

    def values(self, texts: Sequence[np.ndarray], token_budget: int) -> np.ndarray:
        """(B,) float64 values of the texts, in units of the return."""
        mean, spread = self.scale
        out = np.zeros(len(texts))
        for index, normalised in self.read(texts, token_budget, grad=False):
            out[index] = mean + spread * normalised.double().cpu().numpy()
        return out


class Critics:
    """The critics of a policy: the :class:`~llm_marl_baselines.policies.base.ValueFunctions` of its algorithm.

    Args:
        learners: of the agents.
        lora: of the critics' adapters.
        token_budget: most tokens, padding included, in a micro-batch.
        seed: of the adapters' first values.
        recompute: whether layers are computed again in the backward pass.
    """

    def __init__(
        self, learners: Mapping[str, Learner], lora: Lora, token_budget: int, seed: int, recompute: bool = False
    ):
        self._learners, self._lora, self._token_budget, self._seed = learners, lora, token_budget, seed
        self._recompute = recompute
        self._critics: dict[str, Critic] = {}

    @property
    def names(self) -> list[str]:
        """Those that there are."""
        return list(self._critics)

    def __iter__(self) -> Iterator[Critic]:
        return iter(self._critics.values())

    def __getitem__(self, name: str) -> Critic:
        return self._critics[name]

    def add(self, name: str, agent: str, *, head_only: bool = False) -> None:
        """Add a critic; see :class:`ValueFunctions`. Raises ConfigError for a name that is taken, or ``head_only`` on
        a seat that is not trained."""
        if name in self._critics or any(name == learner.name for learner in self._learners.values()):
            raise ConfigError(f"There is a learner {name!r} already.")
        learner = self._learners[agent]
        if head_only and not is_trained(learner):
            raise ConfigError(f"A value head on agent {agent!r}'s own weights would train them, but its seat is fixed.")
        actor = learner if head_only else None
        self._critics[name] = Critic(name, learner.base, self._lora, self._seed, actor, self._recompute)

    def encode(self, name: str, text: str) -> np.ndarray:
        """(T,) int64; see :class:`ValueFunctions`."""
        base = self._critics[name].base
        ids = base.tokenizer(text, add_special_tokens=False)["input_ids"] or [base.pad_id]
        if base.context is not None and len(ids) > base.context:
            raise ConfigError(
                f"Critic {name!r} was given {len(ids):,} tokens, and its model {base.name!r} reads {base.context:,}. "
                "Shorten the episodes (env_args.num_turns, sampling.max_new_tokens), or name a model with a longer "
                "context."
            )
        return np.asarray(ids, dtype=np.int64)

    def values(self, name: str, texts: Sequence[np.ndarray]) -> np.ndarray:
        """(B,) float64; see :class:`ValueFunctions`."""
        here = [texts[i] for i in parallel.block(len(texts))]
        return np.concatenate(parallel.exchange(lambda: self._critics[name].values(here, self._token_budget)))

    def is_fresh(self, name: str) -> bool:
        """Whether the critic has not been given any targets yet."""
        return self._critics[name].is_fresh

    def undo(self) -> None:
        """Take back what new targets did to the critics' scales; see :class:`ValueFunctions`."""
        for critic in self:
            critic.undo()

    def fit(
        self, name: str, texts: Sequence[np.ndarray], targets: np.ndarray, weights: np.ndarray, *, first: bool = True
    ) -> float:
        """Add the gradient of a critic's loss; see :class:`ValueFunctions`.

        Raises:
            NonFiniteError: the loss is NaN or infinite.
        """
        critic = self._critics[name]
        if first:
            critic.adjust(targets, weights)
        here = np.array(parallel.block(len(texts)), dtype=np.int64)
        own = [texts[i] for i in here]
        return sum(parallel.exchange(lambda: self._fit(critic, own, targets[here], weights[here])))

    def _fit(self, critic: Critic, texts: Sequence[np.ndarray], targets: np.ndarray, weights: np.ndarray) -> float:
        mean, spread = critic.scale
        total = 0.0
        for index, values in critic.read(texts, self._token_budget, grad=True):
            wanted, weight = (torch.from_numpy(v[index]).to(values) for v in ((targets - mean) / spread, weights))
            loss = 0.5 * (weight * (values - wanted) ** 2).sum()
            if not torch.isfinite(loss):
                raise NonFiniteError(f"the loss of critic {critic.name!r} is {loss.item()}")
            loss.backward()
            total += float(loss.detach())
        return total

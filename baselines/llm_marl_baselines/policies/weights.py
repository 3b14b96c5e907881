"""Which weights an agent answers with: an adapter on a base that several agents share, or weights of its own.

A :class:`Learner` is a set of trainable weights with the agents that use it. Reference policies are bases without
adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from ..seeding import derive_seed
from .bases import BASE, Base, Lora

SHARING = ("isolated", "shared", "full")


@dataclass(frozen=True)
class Seat:
    """Who answers for an agent, where it is not a fresh adapter (or copy) of the run's model.

    Attributes:
        model: see :mod:`models`.
        frozen: whether it is held as it is.
        lora: of the adapter that ``weights`` holds; of a fresh one where there are none: the run's own.
        full: whether ``weights`` are those of the whole model.
        weights: a file that :func:`keeping.save` wrote, or peft; None starts from the model itself.
        learner: whose weights they are in that file; "" for a file of peft's, which holds one adapter.
    """

    model: str
    frozen: bool = False
    lora: Lora | None = None
    full: bool = False
    weights: Path | None = None
    learner: str = ""


class Learner(Protocol):
    """Trainable weights and who uses them.

    Attributes:
        name: of the learner.
        agents: that use it.
        base: the model below.
        weights: what is trained, by name.
        host: learners of one host can be sampled from together.
        adapter: names this learner among those of the host.
        model: the agent's model, whatever adapter is switched on.
    """

    name: str
    agents: tuple[str, ...]
    base: Base
    weights: dict[str, torch.nn.Parameter]
    host: str
    adapter: str

    @property
    def model(self) -> PreTrainedModel: ...

    def active(self, reference: bool = False) -> AbstractContextManager[PreTrainedModel]:
        """The agent's model, or its reference's."""
        ...

    def together(self, adapters: Sequence[str]) -> AbstractContextManager[Callable[..., Any]]:
        """Runs the model without gradients, each row with the learner of the same host that has its adapter; see
        :meth:`Base.together`."""
        ...

    def export(self, folder: Path) -> None:
        """Write the weights in the form that other tools read."""
        ...


class AdapterLearner:
    """An adapter; its reference is the base without it."""

    def __init__(self, name: str, agents: tuple[str, ...], base: Base, lora: Lora, seed: int, trained: bool = True):
        self.name, self.agents, self.base = name, agents, base
        self.host = base.name
        self.adapter, self.weights = base.add_adapter(lora, derive_seed(seed, "adapter", name), trained)

    @property
    def model(self) -> PreTrainedModel:
        return self.base.model

    def active(self, reference: bool = False) -> AbstractContextManager[PreTrainedModel]:
        return self.base.active(None if reference else self.adapter)

    def together(self, adapters: Sequence[str]) -> AbstractContextManager[Callable[..., Any]]:
        return self.base.together(adapters)

    def export(self, folder: Path) -> None:
        self.base.export(self.adapter, folder)


class FixedLearner:
    """The base itself: nothing of it is trained."""

    def __init__(self, name: str, agents: tuple[str, ...], base: Base):
        self.name, self.agents, self.base = name, agents, base
        self.host, self.adapter = base.name, BASE
        self.weights: dict[str, torch.nn.Parameter] = {}

    @property
    def model(self) -> PreTrainedModel:
        return self.base.model

    def active(self, reference: bool = False) -> AbstractContextManager[PreTrainedModel]:
        return self.base.active(None)

    def together(self, adapters: Sequence[str]) -> AbstractContextManager[Callable[..., Any]]:
        return self.base.together(adapters)

    def export(self, folder: Path) -> None:
        raise ConfigError(f"Agent {self.name!r} plays {self.base.name!r} as it is: there is nothing to export.")


class FullLearner:
    """All weights of a model of its own. Its reference is one frozen copy of the base, kept for all learners on
    that base and loaded when it is first asked for."""

    def __init__(self, name: str, agents: tuple[str, ...], base: Base, model: PreTrainedModel, trained: bool = True):
        self.name, self.agents, self.base = name, agents, base
        # Weights that are trained, or were, are never in half precision.
        wide = torch.promote_types(model.dtype, torch.float32)
        self._model = model.to(wide).requires_grad_(trained)
        self.weights = dict(self._model.named_parameters())
        self.host, self.adapter = name, ""

    @property
    def model(self) -> PreTrainedModel:
        return self._model

    def active(self, reference: bool = False) -> AbstractContextManager[PreTrainedModel]:
        return self.base.active(None) if reference else nullcontext(self._model)

    def together(self, adapters: Sequence[str]) -> AbstractContextManager[Callable[..., Any]]:
        return nullcontext(lambda which, **inputs: self._model(**inputs))

    def export(self, folder: Path) -> None:
        self._model.save_pretrained(folder)
        self.base.tokenizer.save_pretrained(folder)


def make_learners(
    names: dict[str, str],
    sharing: str,
    lora: Lora,
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
    seats: Mapping[str, Seat] | None = None,
    bases: dict[str, Base] | None = None,
) -> dict[str, Learner]:
    """Load the bases and build the learners.

    Args:
        names: the model of each agent.
        sharing: ``"isolated"`` (an adapter for each agent), ``"shared"`` (one for all) or ``"full"``.
        lora: of the adapters.
        dtype, device: of the bases.
        seed: of the adapters' first values; the same for the same learner whoever the others are.
        seats: agents that are not a fresh learner; their models count, not those of ``names``.
        bases: models in memory by name, which are used and added to.

    Returns:
        The learner of each agent, in the order of ``names``. Weights of seats are not read yet.

    Raises:
        ConfigError: an unknown way of sharing, or ``"shared"`` with different models.
    """
    if sharing not in SHARING:
        raise ConfigError(f"Unknown sharing {sharing!r}.{did_you_mean(sharing, SHARING)} Known: {', '.join(SHARING)}.")
    seats = seats or {}
    fresh = {agent: name for agent, name in names.items() if agent not in seats}
    if sharing == "shared" and len(set(fresh.values())) > 1:
        raise ConfigError(
            f"sharing='shared' means one adapter for all agents, but they name different models: {fresh}. "
            "Give all the same model, or use sharing='isolated'."
        )
    bases = {} if bases is None else bases
    models = {agent: seats[agent].model if agent in seats else name for agent, name in names.items()}
    for name in models.values():
        if name not in bases:
            bases[name] = Base(name, dtype, device)
    # Whole models of their own: the last of a base takes the loaded one, if nothing else stands on that base.
    whole = {a: n for a, n in models.items() if (seats[a].full if a in seats else sharing == "full")}
    learners: dict[str, Learner] = {}
    for agent, name in models.items():
        base, seat = bases[name], seats.get(agent)
        trained = seat is None or not seat.frozen
        if agent in whole:
            last = agent == [other for other, model in whole.items() if model == name][-1]
            alone = all(a in whole for a, model in models.items() if model == name) and not base.adapted
            model = base.give_away() if last and alone else base.fresh_copy()
            learners[agent] = FullLearner(agent, (agent,), base, model, trained)
        elif seat is not None and seat.frozen and seat.weights is None:
            learners[agent] = FixedLearner(agent, (agent,), base)
        elif seat is None and sharing == "shared":
            same = next((x for x in learners.values() if x.name == "shared"), None)
            learners[agent] = same or AdapterLearner("shared", tuple(fresh), base, lora, seed)
        else:
            own = (seat.lora if seat is not None else None) or lora
            learners[agent] = AdapterLearner(agent, (agent,), base, own, seed, trained)
    return learners


def is_trained(learner: Learner) -> bool:
    """Whether any of its weights is."""
    return any(weight.requires_grad for weight in learner.weights.values())

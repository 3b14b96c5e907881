"""Language-model policies: one object answers for all agents, and trains them.

Agents that name the same model share one copy of it. With ``sharing="isolated"`` each has a LoRA adapter on it, with
``"shared"`` all have the same one, with ``"full"`` each has weights of its own. The reference policy is the base.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from . import keeping, scoring
from .base import Request, Response, Sampling, Scored
from .bases import Base, Lora
from .critics import Critic, Critics
from .jobs import Job, response
from .models import resolve_device, resolve_dtype
from .prompts import PromptEncoder, prompt_limit
from .recomputing import can_be_recomputed
from .samplers import Sampler
from .weights import Learner, Seat, is_trained, make_learners

PACKING = ("auto", "on", "off")
# Most tokens, padding included, that are computed at once: (CPU, other devices). Sampling keeps keys and values only;
# scoring keeps every layer's activations for the backward pass.
GENERATE_TOKENS = (16_384, 131_072)
SCORE_TOKENS = (768, 16_384)


class HFPolicies:
    """Policies of all agents, on Hugging Face models. A :class:`TrainablePolicy`.

    Args:
        agents: the names of those that it answers for, in the environment's order; none, where others answer for all.
        models: one name for all, or one for each agent; see :mod:`models`.
        sharing: ``"isolated"``, ``"shared"`` or ``"full"``.
        lora: rank, alpha and place of the adapters (not used with ``"full"``).
        sampling: one for all, or one for each agent.
        dtype: of the frozen base. ``"auto"``: float32 on a CPU, bfloat16 elsewhere. Trained weights are float32
            (float64 with a float64 base).
        device: ``"auto"``: the first GPU if there is one.
        max_prompt_tokens: longer prompts overflow. None: what the model's context leaves beside the response.
        overflow: ``"error"`` or ``"drop_oldest_turns"``; see :class:`PromptEncoder`.
        chat_template_kwargs: for the chat template, e.g. ``{"enable_thinking": False}``.
        generate_tokens: most tokens in a batch at sampling; None chooses by device.
        score_tokens: most tokens in a micro-batch at scoring; None chooses by device.
        packing: whether sequences that begin alike share that computation. ``"auto"``: where the model can.
        gradient_checkpointing: compute layers once more in the backward pass instead of keeping their activations.
        seed: of the adapters' first values.
        seats: agents whose policy is another than a fresh learner on their model.
        bases: models in memory, by name, which are used and added to: for several objects on one base.
        sampler: what samples; None: these models themselves. Scoring and training are always theirs.

    Raises:
        ConfigError: an argument out of range; ModelNotFoundError, one of them, for an unknown model.
        MissingDependencyError: see :func:`models.load`.
    """

    def __init__(
        self,
        agents: Sequence[str],
        models: str | Mapping[str, str] = "smollm2",
        *,
        sharing: str = "isolated",
        lora: Lora | None = None,
        sampling: Sampling | Mapping[str, Sampling] | None = None,
        dtype: str | torch.dtype = "auto",
        device: str | torch.device = "auto",
        max_prompt_tokens: int | None = None,
        overflow: str = "error",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        generate_tokens: int | None = None,
        score_tokens: int | None = None,
        packing: str = "auto",
        gradient_checkpointing: bool = False,
        seed: int = 0,
        seats: Mapping[str, Seat] | None = None,
        bases: dict[str, Base] | None = None,
        sampler: Sampler | None = None,
    ):
        self.agents = tuple(agents)
        if len(set(self.agents)) < len(self.agents):
            raise ConfigError(f"Agents need names, and different ones; got {self.agents}.")
        if packing not in PACKING:
            hint = did_you_mean(packing, PACKING)
            raise ConfigError(f"Unknown packing {packing!r}.{hint} Known: {', '.join(PACKING)}.")
        names = self._per_agent("models", models, str)
        self.sampling = self._per_agent("sampling", sampling or Sampling(), Sampling)
        for agent, settings in self.sampling.items():
            settings.check(agent)
        self.sharing = sharing
        self.device = resolve_device(device)
        on_cpu = self.device.type == "cpu"
        self.generate_tokens = generate_tokens or GENERATE_TOKENS[0 if on_cpu else 1]
        self.score_tokens = score_tokens or SCORE_TOKENS[0 if on_cpu else 1]
        self._learners = make_learners(
            names, sharing, lora or Lora(), resolve_dtype(dtype, self.device), self.device, seed, seats, bases
        )
        self.critics = Critics(self._learners, lora or Lora(), self.score_tokens, seed, gradient_checkpointing)
        for agent, seat in (seats or {}).items():
            if seat.weights is not None and seat.learner:
                keeping.take(seat.weights, seat.learner, self._learner(agent))
            elif seat.weights is not None:
                keeping.take_adapter(seat.weights, self._learner(agent))
        self._encoders = {
            agent: PromptEncoder(
                learner.base.tokenizer,
                prompt_limit(agent, learner.base.context, self.sampling[agent].max_new_tokens, max_prompt_tokens),
                overflow,
                chat_template_kwargs or {},
            )
            for agent, learner in self._learners.items()
        }
        if packing == "on":
            for agent, learner in self._learners.items():
                if not learner.base.packable:
                    raise ConfigError(
                        f"The model {learner.base.name!r} of agent {agent!r} cannot be scored packed: it does not "
                        "take a 4-D attention mask in every layer. Use packing='auto' or 'off'."
                    )
        if gradient_checkpointing:
            for agent, learner in self._learners.items():
                if not can_be_recomputed(learner.model):
                    raise ConfigError(
                        f"The model {learner.base.name!r} of agent {agent!r} has no layers that transformers can "
                        "compute again. Use gradient_checkpointing=False and a smaller score_tokens."
                    )
        self._packing, self._recompute = packing, gradient_checkpointing
        self._sampler = sampler
        if sampler is not None:
            sampler.attach(self._learners, self.sampling)
        self._warned = False

    # --- answering

    def generate(self, requests: Sequence[Request], *, seed: int, greedy: bool = False) -> list[list[Response]]:
        """Answer all requests; see :class:`Policy`.

        A response depends on its seed (the request's own; without them on ``seed`` and the order of the agent's
        requests), its prompt and the agent's weights; not (but for rounding) on what else is asked, nor on how the
        budget cuts the batch. Agents on one base are sampled
        together, each row with its own adapter: on a CPU, 32 rows take much less than twice as long as 16.

        Raises:
            ConfigError: an unknown agent, or a prompt that does not fit (see :class:`PromptEncoder`).
        """
        results: list[list[Response]] = [[] for _ in requests]
        asked: dict[str, int] = dict.fromkeys(self.agents, 0)  # requests so far, by agent
        jobs: dict[str, Job] = {}
        for number, request in enumerate(requests):
            learner = self._learner(request.agent)
            ids = tuple(self._encoders[request.agent].encode(request.messages, request.agent))
            settings = self.sampling[request.agent]
            if greedy:
                settings = Sampling(temperature=0.0, max_new_tokens=settings.max_new_tokens)
            job = jobs.setdefault(learner.host, Job(learner))
            for sample in range(request.num_samples):
                row_seed = request.seed_of(sample, seed, asked[request.agent])
                job.add(number, learner.adapter, ids, settings, row_seed)
            asked[request.agent] += 1
        for job in jobs.values():
            prompts = [np.asarray(ids, dtype=np.int64) for _, ids in job.prompts]
            packed = self._packs(job.learner.base)
            sampled = job.run(self.generate_tokens, packed) if self._sampler is None else self._sampler.run(job)
            for number, row, answer in zip(job.numbers, job.rows, sampled, strict=True):
                encoder = self._encoders[requests[number].agent]
                results[number].append(response(encoder, prompts[row.prompt], answer))
        return results

    # --- training

    def trains(self, agent: str) -> bool:
        """Whether the agent has weights here that are trained; False also for one that another policy answers for."""
        return agent in self._learners and is_trained(self._learner(agent))

    def has_weights(self, agent: str) -> bool:
        """Whether the agent has weights here beside its base model's, frozen ones included."""
        return agent in self._learners and bool(self._learner(agent).weights)

    def learner_of(self, agent: str) -> str:
        """The learner's name: the agent's own, or ``"shared"``."""
        return self._learner(agent).name

    @property
    def separate_sampler(self) -> bool:
        """Whether another engine samples than the one that scores."""
        return self._sampler is not None

    @property
    def learners(self) -> list[str]:
        """The names of all that is trained: the agents' learners, then the critics."""
        return [
            name for name, learner in self._distinct().items() if self.trains(learner.agents[0])
        ] + self.critics.names

    def parameters(self, learner: str) -> list[torch.nn.Parameter]:
        """The trainable weights of a learner or critic."""
        known = {thing.name: thing for thing in self._kept()}
        if learner not in known:
            raise ConfigError(f"There is no learner {learner!r}; there are: {', '.join(sorted(known))}.")
        return [weight for weight in known[learner].weights.values() if weight.requires_grad]

    def score(
        self,
        agent: str,
        prompt_ids: Sequence[np.ndarray],
        token_ids: Sequence[np.ndarray],
        *,
        reference: bool = False,
        grad: bool = True,
    ) -> Iterator[Scored]:
        """Log-probabilities at the agent's sampling temperature; see :class:`TrainablePolicy`.

        Top-p and top-k are not applied: scores are those of the whole distribution. A warning says so once.

        Raises:
            ConfigError: an unknown agent, temperature 0, a response without tokens.
        """
        learner = self._learner(agent)
        settings = self.sampling[agent]
        if settings.truncated and grad and not self._warned:
            self._warned = True
            warnings.warn(
                f"Agent {agent!r} samples with top_p={settings.top_p}, top_k={settings.top_k}, which cut the "
                "distribution; training scores the whole one, so it is off-policy. top_p=1 and top_k=0 avoid this.",
                stacklevel=2,
            )
        return scoring.score(
            lambda: learner.active(reference),
            [ids.tolist() for ids in prompt_ids],
            [ids.tolist() for ids in token_ids],
            temperature=settings.temperature,
            pad_id=learner.base.pad_id,
            token_budget=self.score_tokens,
            packed=self._packs(learner.base),
            linear_head=learner.base.linear_head,
            grad=grad and not reference,
            recompute=self._recompute,
        )

    # --- keeping

    def save(self, folder: Path) -> None:
        """Write every learner's weights into the folder, one safetensors file each."""
        keeping.save(self._kept(), Path(folder))

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; the weights are then bit for bit the same.

        Raises:
            DataError: a file is missing, or belongs to other learners or other shapes. Nothing is changed then.
        """
        keeping.load(self._kept(), Path(folder))

    def export(self, agent: str, folder: Path) -> None:
        """Write the agent's policy for other tools: an adapter folder that ``peft.PeftModel.from_pretrained`` reads,
        or, with ``sharing="full"``, the whole model with its tokenizer."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._learner(agent).export(folder)

    def describe(self) -> dict[str, Any]:
        """What is in memory and what of it is trained, as plain data for logs."""
        bases = {learner.base.name: learner.base for learner in self._learners.values()}
        return {
            "sharing": self.sharing,
            "device": str(self.device),
            "bases": {
                name: {
                    "parameters": base.num_parameters,
                    "dtype": str(base.dtype).removeprefix("torch."),
                    "packed": self._packs(base),
                }
                for name, base in bases.items()
            },
            "learners": {
                name: {
                    "agents": list(learner.agents),
                    "base": learner.base.name,
                    "trainable_parameters": sum(w.numel() for w in learner.weights.values() if w.requires_grad),
                }
                for name, learner in self._distinct().items()
            }
            | {
                critic.name: {
                    "agents": [],
                    "base": critic.base.name,
                    "trainable_parameters": sum(weight.numel() for weight in self.parameters(critic.name)),
                }
                for critic in self.critics
            },
        }

    # --- inside

    def _packs(self, base: Base) -> bool:
        return self._packing != "off" and base.packable

    def _learner(self, agent: str) -> Learner:
        if agent not in self._learners:
            raise ConfigError(
                f"No policy for agent {agent!r}.{did_you_mean(agent, self.agents)} There are: {', '.join(self.agents)}."
            )
        return self._learners[agent]

    def _kept(self) -> list[Learner | Critic]:
        return [*self._distinct().values(), *self.critics]

    def _distinct(self) -> dict[str, Learner]:
        return {learner.name: learner for learner in self._learners.values()}

    def _per_agent(self, what: str, value: Any, kind: type) -> dict[str, Any]:
        if isinstance(value, kind):
            return dict.fromkeys(self.agents, value)
        if not isinstance(value, Mapping) or set(value) != set(self.agents):
            raise ConfigError(
                f"{what} must be one {kind.__name__} for all agents, or one for each of {', '.join(self.agents)}; "
                f"got {value!r}."
            )
        return {agent: value[agent] for agent in self.agents}

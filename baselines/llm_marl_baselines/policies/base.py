"""Who answers: the contract between the rollout and a policy.

A policy sees chat messages and returns text. It knows nothing of tasks, environments or rewards. Any object with a
``generate`` of this shape is a policy; a trainable one adds what :class:`TrainablePolicy` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

import numpy as np

from llm_marl_envs.errors import ConfigError

from ..seeding import derive_seed

if TYPE_CHECKING:
    import torch

NO_TOKENS = np.zeros(0, dtype=np.int64)


class Message(TypedDict):
    """One chat message, in the form that chat templates take. ``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True)
class Sampling:
    """How a policy samples. All of it is set explicitly: nothing comes from a model's generation_config.

    Attributes:
        temperature: divides the logits; 0 means greedy.
        top_p: nucleus probability in (0, 1]; 1 switches it off.
        top_k: number of most likely tokens kept; 0 switches it off.
        max_new_tokens: most tokens in one response, the end-of-text token included.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 128

    @property
    def truncated(self) -> bool:
        """Whether top-p or top-k cut the distribution, which makes sampling off-policy."""
        return self.top_p < 1.0 or self.top_k > 0

    def check(self, agent: str) -> None:
        """Raise ConfigError for a value out of range; it names the agent."""
        for name, valid, allowed in (
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "in (0, 1]"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
        ):
            if not valid:
                raise ConfigError(f"{name} of agent {agent!r} is {getattr(self, name)}; it must be {allowed}.")


@dataclass(frozen=True)
class Request:
    """Ask ``agent``'s policy for ``num_samples`` responses to one distinct prompt.

    ``seeds`` are of the samples, one for each: a policy that draws every sample by itself takes them, so that a sample
    is the same whatever else is asked, and in whichever process. Others go by the seed of ``generate``.
    """

    agent: str
    messages: tuple[Message, ...]
    num_samples: int = 1
    seeds: tuple[int, ...] | None = None

    def seed_of(self, sample: int, seed: int, number: int) -> int:
        """The seed of a sample: its own, else one from that of ``generate`` and the number of the request among those
        of its agent."""
        return derive_seed(seed, self.agent, number, sample) if self.seeds is None else self.seeds[sample]


@dataclass(frozen=True)
class Response:
    """One sampled response.

    Attributes:
        text: what the environment receives (without a thinking block, stripped of special tokens).
        raw_text: everything that was sampled, decoded, special tokens left out; "" if that is the text.
        prompt_ids: (P,) int64, the prompt's tokens; empty for policies that have none (scripts, people, APIs).
        token_ids: (T,) int64, exactly the sampled tokens, the end-of-text token included, nothing after it.
        logprobs: (T,) float32, log-probability of each token under the distribution it was sampled from
            (temperature, and top-p/top-k where they cut).
        finished: True if an end-of-text token ended it; False if ``max_new_tokens`` did.
        reported_tokens: how many tokens were sampled, as an endpoint reports it that does not tell which; None where
            ``token_ids`` says it.
    """

    text: str
    raw_text: str = ""
    prompt_ids: np.ndarray = field(default_factory=lambda: NO_TOKENS)
    token_ids: np.ndarray = field(default_factory=lambda: NO_TOKENS)
    logprobs: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    finished: bool = True
    reported_tokens: int | None = None

    @property
    def num_tokens(self) -> int:
        """How many tokens were sampled; 0 where there are none (scripts, people), or nobody tells."""
        return len(self.token_ids) if self.reported_tokens is None else self.reported_tokens


@runtime_checkable
class Policy(Protocol):
    """Anything that answers. One object may answer for several agents, and then gets their requests in one call."""

    def generate(self, requests: Sequence[Request], *, seed: int, greedy: bool = False) -> list[list[Response]]:
        """Answer all requests: result[i] holds ``requests[i].num_samples`` responses.

        The same requests, seed and weights give the same responses; no global random state is used or changed.
        """
        ...


@dataclass(frozen=True)
class Scored:
    """A micro-batch of scored responses.

    Attributes:
        index: (b,) which of the given responses these are.
        logprobs: (b, T) log-probabilities at the sampling temperature, 0 where ``mask`` is False; with gradient if
            asked for.
        mask: (b, T) bool, True at the responses' tokens.
        entropy: (b, T) entropy of the distribution at each position, detached, 0 where ``mask`` is False.
    """

    index: torch.Tensor
    logprobs: torch.Tensor
    mask: torch.Tensor
    entropy: torch.Tensor


class ValueFunctions(Protocol):
    """Critics: each reads a text and gives one number, in units of the return. They are learners of the policy."""

    @property
    def names(self) -> list[str]:
        """Those that there are."""
        ...

    def add(self, name: str, agent: str, *, head_only: bool = False) -> None:
        """Add a critic, of values near 0 at first, on the base model of ``agent``.

        Args:
            name: of the new learner.
            agent: whose base model and tokenizer it uses.
            head_only: read the text with the agent's own trained weights, which the critic's loss then moves too,
                instead of an adapter of the critic's own.
        """
        ...

    def encode(self, name: str, text: str) -> np.ndarray:
        """(T,) int64, the tokens of a plain text for a critic. Raises ConfigError for one that is too long."""
        ...

    def values(self, name: str, texts: Sequence[np.ndarray]) -> np.ndarray:
        """(B,) float64 values of the texts (token ids), without gradients."""
        ...

    def fit(
        self, name: str, texts: Sequence[np.ndarray], targets: np.ndarray, weights: np.ndarray, *, first: bool = True
    ) -> float:
        """Add the gradient of a critic's loss, 1/2 * sum of weights * (V - target)^2 in normalised units, to its
        parameters, and return the loss.

        Args:
            name: of the critic.
            texts: (B) token ids.
            targets: (B,) in units of the return.
            weights: (B,)
            first: whether these targets are new, so that the scale of the returns has to take them in.
        """
        ...

    def is_fresh(self, name: str) -> bool:
        """Whether the critic has not been given any targets yet."""
        ...

    def undo(self) -> None:
        """Take back what the newest targets did to the scale of the returns: their update has failed. Only before the
        first optimiser step after them."""
        ...


class TrainablePolicy(Policy, Protocol):
    """A policy whose responses can be scored with gradients. Parameters are grouped into *learners*: one per agent
    for ``isolated`` and ``full``, a single one for ``shared``."""

    def trains(self, agent: str) -> bool:
        """Whether the agent has weights here that are trained; False for a seat that is held fixed, and for one that
        another policy answers for."""
        ...

    def has_weights(self, agent: str) -> bool:
        """Whether the agent has weights here beside its base model's, frozen ones included."""
        ...

    @property
    def separate_sampler(self) -> bool:
        """Whether another engine samples than the one that scores, so that their log-probabilities differ by more than
        rounding. The loss then weighs tokens (``loss.importance_cap``)."""
        ...

    @property
    def learners(self) -> list[str]:
        """The names of all that is trained: the agents' learners, then the critics."""
        ...

    @property
    def critics(self) -> ValueFunctions:
        """Value functions on the policy's base models."""
        ...

    def learner_of(self, agent: str) -> str:
        """The name of the learner that holds the agent's trainable weights."""
        ...

    def parameters(self, learner: str) -> list[torch.nn.Parameter]:
        """The learner's trainable weights, all float32."""
        ...

    def score(
        self,
        agent: str,
        prompt_ids: Sequence[np.ndarray],
        token_ids: Sequence[np.ndarray],
        *,
        reference: bool = False,
        grad: bool = True,
    ) -> Iterator[Scored]:
        """Log-probabilities of given responses to given prompts under the agent's policy, or under its reference
        policy, in micro-batches within the token budget. Every response is in exactly one of them."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for the announcement of a run: base models, trainable parameters."""
        ...

    def export(self, agent: str, folder: Path) -> None:
        """Write one agent's weights as other libraries load them."""
        ...

    def save(self, folder: Path) -> None:
        """Write every learner's weights, for :meth:`load`."""
        ...

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; the weights are then bit for bit the same."""
        ...

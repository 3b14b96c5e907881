"""Optimisers: AdamW for each learner, a learning-rate schedule, gradient clipping, and no step on a broken number."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from llm_marl_envs.errors import ConfigError

from . import parallel
from .errors import NonFiniteError


@dataclass(frozen=True)
class OptimConfig:
    """AdamW and its schedule.

    Attributes:
        lr: peak learning rate. 1e-3 fits LoRA adapters of a small model; full weights want 5e-6 to 2e-5.
        critic_lr: of critics; unset: ``lr``.
        schedule: ``constant``, or decay by ``linear`` or ``cosine`` that would reach 0 one step after the last.
        warmup_steps: steps of linear warm-up.
        betas, eps, weight_decay: AdamW's own.
        max_grad_norm: gradients of a learner are scaled down to this norm; 0 switches it off.
    """

    lr: float = 1e-3
    critic_lr: float | None = None
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("lr", "critic_lr"):
            value = getattr(self, name)
            if value is not None and (not value >= 0 or not math.isfinite(value)):
                raise ConfigError(f"optim.{name} must be a number of at least 0, not {value}.")
        if self.schedule not in ("constant", "linear", "cosine"):
            raise ConfigError(f"optim.schedule is constant, linear or cosine, not {self.schedule!r}.")
        for name in ("max_grad_norm", "warmup_steps", "weight_decay", "eps"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"optim.{name} must be at least 0, not {getattr(self, name)}.")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"optim.betas must be two numbers from 0 to below 1, not {self.betas}.")

    def lr_at(self, step: int, num_steps: int) -> float:
        """Learning rate of update ``step`` (0 to num_steps - 1): a function of the step, so resuming needs no state."""
        return self.lr * self.share_at(step, num_steps)

    def share_at(self, step: int, num_steps: int) -> float:
        """The part of its peak that every learning rate has at that update."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(num_steps - self.warmup_steps, 1)
        if self.schedule == "linear":
            return 1 - done
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * done))
        return 1.0


class Optimizers:
    """One AdamW per learner.

    Args:
        parameters: learner -> its trainable weights.
        config: see :class:`OptimConfig`.
        num_steps: length of the run, for the schedule.
        critics: learners whose learning rate is ``critic_lr``.
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[torch.nn.Parameter]],
        config: OptimConfig,
        num_steps: int,
        critics: Collection[str] = (),
    ):
        self.config = config
        self.num_steps = num_steps
        critic_lr = config.lr if config.critic_lr is None else config.critic_lr
        self._peak = {name: critic_lr if name in critics else config.lr for name in parameters}
        self._parameters = {name: list(ps) for name, ps in parameters.items()}
        self._adam = {
            name: torch.optim.AdamW(
                ps, lr=config.lr, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay, fused=True
            )
            for name, ps in self._parameters.items()
        }

    def zero_grad(self) -> None:
        for adam in self._adam.values():
            adam.zero_grad(set_to_none=True)

    def step(self, step: int) -> dict[str, float]:
        """Clip and apply each learner's gradient, then clear it. Of several processes each has computed a part of it.

        A learner whose gradient is exactly zero (no response had an advantage) is left as it is: Adam's momentum and
        weight decay would otherwise move it for no reason.

        Returns:
            gradient norm of each learner before clipping.

        Raises:
            NonFiniteError: a gradient is NaN or infinite. No weight of any learner has changed.
        """
        parallel.sum_gradients(self._parameters)
        norms = {}
        for name, ps in self._parameters.items():
            grads = [p.grad for p in ps if p.grad is not None]
            norms[name] = float(torch.nn.utils.get_total_norm(grads)) if grads else 0.0
            if not math.isfinite(norms[name]):
                raise NonFiniteError(f"the gradient of learner {name!r} has norm {norms[name]}")
        share = self.config.share_at(step, self.num_steps)
        for name, adam in self._adam.items():
            if norms[name] == 0.0:
                continue
            if self.config.max_grad_norm and norms[name] > self.config.max_grad_norm:
                for p in self._parameters[name]:
                    if p.grad is not None:
                        p.grad.mul_(self.config.max_grad_norm / norms[name])
            for group in adam.param_groups:
                group["lr"] = self._peak[name] * share
            adam.step()
        self.zero_grad()
        return norms

    def save(self, path: Path) -> None:
        torch.save({name: adam.state_dict() for name, adam in self._adam.items()}, path)

    def load(self, path: Path) -> None:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        for name, adam in self._adam.items():
            adam.load_state_dict(state[name])

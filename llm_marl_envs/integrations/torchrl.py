"""TorchRL: any parallel text environment as an ``EnvBase`` whose observations and actions are the texts themselves.

TorchRL's own ``PettingZooWrapper`` gives a placeholder for text spaces, whatever the environment says. Here texts are
non-tensor entries of the tensordict, beside tensors for all that is a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pettingzoo import ParallelEnv

from ..errors import ConfigError, InvalidActionError, MissingDependencyError
from ..spaces import shortest
from .common import asked_agents, require_text

try:
    import torch
    from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
    from torchrl.data import Binary, Composite, NonTensor, Unbounded
    from torchrl.envs import EnvBase
    from torchrl.envs.utils import MarlGroupMapType, check_marl_grouping
except ModuleNotFoundError as missing:
    raise MissingDependencyError(
        f"{__name__} needs TorchRL ({missing}). Install it: pip install 'llm-marl-envs[torchrl]'"
    ) from missing

Infos = Mapping[str, Mapping[str, Any]]
InfoKey = str | tuple[str, ...]


class TextEnv(EnvBase):
    """A ``ParallelEnv`` of text as TorchRL steps it. Its batch size is ``()``; a group has n agents.

    ===============================  ===========================================================================
    key                              value
    ===============================  ===========================================================================
    ``(group, "observation")``       n texts: what each agent sees now; ``""`` for one that has left
    ``(group, "action")``            n texts: what each agent writes; ignored where its mask is False
    ``(group, "mask")``              (n,) bool: whether the agent is asked in the step that comes
    ``(group, "reward")``            (n, 1) float32, of this step
    ``(group, "done")``              (n, 1) bool; ``terminated`` and ``truncated`` likewise
    ``(group, "info", *key)``        (n,) float32, for each of ``info_keys``; NaN where the environment gives none
    ``"state"``                      one text, with ``return_state``
    ``"done"``                       (1,) bool: over for all agents; ``terminated`` and ``truncated`` likewise
    ===============================  ===========================================================================

    An action is a list of n ``str``: ``td["agent", "action"] = ["A", "B"]``, or what the function in a
    ``TensorDictModule`` returns. ``env.parallel_env.action_space(agent).clip(text)`` shortens one that is too long.

    ``set_seed`` picks the episode that the next ``reset`` starts; resets after it go on with the environment's own
    generator. ``reset(seed=..., options=...)`` picks one outright. A ``Collector`` resets when it is made: seed the
    environment before. A "random" action (``rand_action``, or a rollout without a policy) is the shortest text that the
    action space allows.

    Args:
        env: a ``ParallelEnv`` whose observations and actions are text.
        group_map: group -> agents, or a ``MarlGroupMapType``. By default as in ``PettingZooWrapper``: agents whose
            names differ in the number at their end, ``agent_1`` and ``agent_2``, form one group (``agent``); every
            other agent has a group of its own.
        return_state: whether ``state()``, which a centralised critic may read, is an entry.
        info_keys: numbers of ``infos[agent]`` to keep: ``"score"``, or ``("terms", "right")`` where they are nested.
        device: of the tensors.

    Raises:
        ConfigError: not a parallel environment of text, a bad ``group_map``, or ``return_state`` without a text state.
        InvalidActionError: from ``step``: an action that is missing, no text, or outside the agent's space.
    """

    def __init__(
        self,
        env: ParallelEnv,
        *,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType | None = None,
        return_state: bool = False,
        info_keys: Sequence[InfoKey] = (),
        device: str | torch.device | None = None,
    ):
        super().__init__(device=device, batch_size=())
        require_text(env, "TextEnv")
        self.parallel_env = env
        self.group_map = _groups(group_map, list(env.possible_agents))
        self.return_state = return_state
        self.info_keys = [key if isinstance(key, tuple) else (key,) for key in info_keys]
        self._seed_of_next: int | None = None
        self._ended: dict[str, tuple[bool, bool]] = {}  # agents that have left: (terminated, truncated)
        self._asked: list[str] = []
        self._make_specs()

    def _make_specs(self) -> None:
        actions, observations, rewards, ends = Composite(), Composite(), Composite(), Composite()
        for group, agents in self.group_map.items():
            n = len(agents)
            shown = Composite(observation=_text(n), mask=_flag(n), shape=(n,))
            for key in self.info_keys:
                shown["info", *key] = Unbounded(shape=(n,), dtype=torch.float32)
            observations[group] = shown
            shortest_text = shortest(self.parallel_env.action_space(agents[0]))
            actions[group] = Composite(action=_text(n, example=shortest_text), shape=(n,))
            rewards[group] = Composite(reward=Unbounded(shape=(n, 1), dtype=torch.float32), shape=(n,))
            ends[group] = Composite(done=_flag(n, 1), terminated=_flag(n, 1), truncated=_flag(n, 1), shape=(n,))
        ends.update(Composite(done=_flag(1), terminated=_flag(1), truncated=_flag(1)))
        if self.return_state:
            observations["state"] = _text()
        self.action_spec, self.observation_spec = actions, observations
        self.reward_spec, self.done_spec = rewards, ends

    # -- the episode --------------------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._seed_of_next = seed

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        observations, infos = self.parallel_env.reset(**{"seed": self._seed_of_next, **kwargs})
        self._seed_of_next, self._ended = None, {}
        return self._shown(observations, infos)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        played = self._actions(tensordict)
        observations, rewards, terminations, truncations, infos = self.parallel_env.step(played)
        for agent in played:
            if agent not in self.parallel_env.agents:
                self._ended[agent] = bool(terminations.get(agent)), bool(truncations.get(agent))
        shown = self._shown(observations, infos)
        for group, agents in self.group_map.items():
            shown[group, "reward"] = self._column(float(rewards.get(agent, 0.0)) for agent in agents)
        return shown

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment inside too."""
        self.parallel_env.close()
        super().close(raise_if_closed=raise_if_closed)

    # -- parts --------------------------------------------------------------------------------------------------

    def _actions(self, tensordict: TensorDictBase) -> dict[str, str]:
        """The joint action: what was handed in by those who are asked; of the others nothing is read."""
        living = self.parallel_env.agents
        actions = {agent: shortest(self.parallel_env.action_space(agent)) for agent in living}
        for group, agents in self.group_map.items():
            if not set(agents) & set(self._asked):
                continue
            given = tensordict.get((group, "action"), None)
            texts = given.tolist() if isinstance(given, (NonTensorData, NonTensorStack)) else None
            if texts is None or len(texts) != len(agents):
                raise InvalidActionError(
                    f"The entry ({group!r}, 'action') must hold {len(agents)} texts, one for each of {agents}; it is "
                    f"{given!r}. Set a list: tensordict[{group!r}, 'action'] = {['...'] * len(agents)}."
                )
            for agent, text in zip(agents, texts, strict=True):
                if agent not in self._asked:
                    continue
                if not isinstance(text, str):
                    raise InvalidActionError(f"The action of agent {agent!r} must be a text (str), not {text!r}.")
                actions[agent] = text
        return actions

    def _shown(self, observations: Mapping[str, Any], infos: Infos) -> TensorDict:
        """What reset and step have in common: what the agents see and who is asked, who has left, the state."""
        self._asked = asked_agents(self.parallel_env, infos)
        entries = TensorDict({}, batch_size=(), device=self.device)
        for group, agents in self.group_map.items():
            ends = [self._ended.get(agent, (False, False)) for agent in agents]
            entries[group] = TensorDict(
                {
                    "observation": NonTensorStack(*(str(observations.get(agent, "")) for agent in agents)),
                    "mask": torch.tensor([agent in self._asked for agent in agents], device=self.device),
                    "done": self._column(agent in self._ended for agent in agents),
                    "terminated": self._column(terminated for terminated, _ in ends),
                    "truncated": self._column(truncated for _, truncated in ends),
                },
                batch_size=(len(agents),),
                device=self.device,
            )
            for key in self.info_keys:
                numbers = [_number(infos.get(agent, {}), key) for agent in agents]
                entries[group, "info", *key] = torch.tensor(numbers, dtype=torch.float32, device=self.device)
        over = not self.parallel_env.agents
        cut = over and any(truncated and not terminated for terminated, truncated in self._ended.values())
        for name, value in (("done", over), ("terminated", over and not cut), ("truncated", cut)):
            entries[name] = torch.tensor([value], device=self.device)
        if self.return_state:
            entries["state"] = NonTensorData(self._state())
        return entries

    def _column(self, values: Any) -> torch.Tensor:
        """(n, 1), of the values' own type."""
        return torch.tensor([[value] for value in values], device=self.device)

    def _state(self) -> str:
        try:
            state = self.parallel_env.state()
        except NotImplementedError:
            state = None
        if not isinstance(state, str):
            raise ConfigError(
                f"return_state needs an environment whose state() returns a text; that of {self.parallel_env} "
                f"{'is not implemented' if state is None else f'returned {type(state).__name__}'}. Leave it out."
            )
        return str(state)


def _groups(
    group_map: Mapping[str, Sequence[str]] | MarlGroupMapType | None, agents: list[str]
) -> dict[str, list[str]]:
    if isinstance(group_map, MarlGroupMapType):
        groups = group_map.get_group_map(agents)
    elif group_map is not None:
        groups = {group: list(members) for group, members in group_map.items()}
    else:
        groups = {}
        for agent in agents:
            name, _, number = agent.rpartition("_")
            groups.setdefault(name if name and number.isdigit() else agent, []).append(agent)
    try:
        check_marl_grouping(groups, agents)
    except ValueError as error:
        raise ConfigError(
            f"group_map={groups}: {error}. Each of the agents {agents} belongs to exactly one group."
        ) from error
    return groups


def _text(*shape: int, example: str = "") -> NonTensor:
    return NonTensor(shape=shape, example_data=example)


def _flag(*shape: int) -> Binary:
    return Binary(n=shape[-1], shape=shape, dtype=torch.bool)


def _number(info: Mapping[str, Any], key: Sequence[str]) -> float:
    """A number of an agent's info; NaN where there is none."""
    value: Any = info
    for part in key:
        value = value.get(part) if isinstance(value, Mapping) else None
    return float("nan") if value is None else float(value)

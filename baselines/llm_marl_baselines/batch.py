"""What a rollout returns: who was asked what, who answered what, what was earned, and how it hangs together.

Three kinds of things, each numbered from 0 (shapes are given in these letters):

- *nodes* (M): points where agents were asked; a copy of the environment, at one turn, with one history.
- *responses* (B): one agent's sampled response at one node.
- *steps* (K): joint actions that were played; one response per acting agent. A step that did not end its episode
  leads to a node of the next turn.

With ``pairing="aligned"`` a response is part of one step; with ``"cross"`` it is part of many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .policies.base import Response


@dataclass(frozen=True)
class Batch:
    """See the module's docstring for the letters.

    Attributes:
        agents: (N) names, in the order of the columns below.
        node_weight: (M,) weight of the node in the objective of its root; those of a turn sum to 1 for each root, less
            what branches that ended would have had. 0 below a greedy joint response.
        root: (M,) which episode start the node belongs to, 0 to P - 1.
        turn: (M,) turns played before the node; 0 at a root.
        parent_step: (M,) the step that led to the node; -1 at a root.
        group: (M,) group of the node. Responses of one agent in nodes of one group are each other's baseline: a tree
            gives each node a group of its own, chains give one group to all living chains of a root at a turn.
        observations: (M) the text that each agent saw at the node.
        histories: (M) the joint history before the actions, as text, for a centralised critic.
        states: (M) the environment's ``state()``, None where it has none.
        response_node: (B,) the node where the response was given.
        response_agent: (B,) column of the agent.
        responses: (B) the responses.
        weight: (B,) weight of the response in the objective of its root (G^-t / G in a tree). The weights of an agent
            at turn 0 sum to 1 for each root. 0 for responses that nothing is learned from: held and greedy ones.
        clipped: (B,) bool, whether the text had to be changed to fit the action space.
        actions: (K) the joint action that was played: what each agent's environment received.
        step_histories: (K) the joint history with the step's joint action at its end, as text.
        step_node: (K,) the node where the step was taken.
        step_share: (K,) the step's part in its node: 1 over the number of sampled joint actions there; 0 for a greedy
            one beside them; 1 for the only one further down.
        greedy: (K,) bool; whether it is a greedy joint response, or lies below one.
        step_response: (K, N) the response that each agent contributed; -1 where the agent was not asked.
        rewards: (K, N) float64, finite; 0 for an agent that had left.
        present: (K, N) bool; False for an agent that had left the episode before the step.
        acted: (K, N) bool; False also for one that was not asked.
        terminated, truncated: (K,) bool; whether the step ended the episode, and how.
        infos: (K) what the environment said of the step, per agent.
    """

    agents: tuple[str, ...]
    node_weight: np.ndarray
    root: np.ndarray
    turn: np.ndarray
    parent_step: np.ndarray
    group: np.ndarray
    observations: Sequence[Mapping[str, str]]
    histories: Sequence[str]
    states: Sequence[str | None]
    response_node: np.ndarray
    response_agent: np.ndarray
    responses: Sequence[Response]
    weight: np.ndarray
    clipped: np.ndarray
    actions: Sequence[Mapping[str, str]]
    step_histories: Sequence[str]
    step_node: np.ndarray
    step_share: np.ndarray
    greedy: np.ndarray
    step_response: np.ndarray
    rewards: np.ndarray
    present: np.ndarray
    acted: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: Sequence[Mapping[str, Mapping[str, Any]]]

    @classmethod
    def join(cls, parts: Sequence[Batch]) -> Batch:
        """One batch from those of several rollouts: as if one had played all their starts, one part after the other.

        Nodes are numbered level by level, within a level in the order of the starts; responses and steps follow their
        nodes.

        Args:
            parts: at least one, of the same agents.
        """
        if len(parts) == 1:
            return parts[0]

        def joined(name: str, order: np.ndarray) -> Any:
            columns = [getattr(part, name) for part in parts]
            if isinstance(columns[0], np.ndarray):
                return np.concatenate(columns)[order]
            values = [value for column in columns for value in column]
            return [values[i] for i in order]

        def offset(name: str, counts: Sequence[int]) -> np.ndarray:
            """Numbers of each part behind those of the parts before; -1 stays."""
            starts = np.cumsum([0, *counts[:-1]])
            moved = [getattr(part, name) for part in parts]
            return np.concatenate(
                [np.where(old < 0, -1, old + start) for old, start in zip(moved, starts, strict=True)]
            )

        num_nodes = [len(part.root) for part in parts]
        nodes = np.argsort(np.concatenate([part.turn for part in parts]), kind="stable")
        new_node = np.argsort(nodes)  # of each old number, parts counted through, the new one
        response_node = new_node[offset("response_node", num_nodes)]
        step_node = new_node[offset("step_node", num_nodes)]
        responses, steps = (np.argsort(at, kind="stable") for at in (response_node, step_node))
        # One more at the end: -1 leads to -1.
        new_response, new_step = (np.append(np.argsort(order), -1) for order in (responses, steps))
        group = offset("group", [int(part.group.max()) + 1 for part in parts])[nodes]
        _, first, same = np.unique(group, return_index=True, return_inverse=True)
        order = {"node": nodes, "response": responses, "step": steps}
        return cls(
            agents=parts[0].agents,
            root=offset("root", [part.num_roots for part in parts])[nodes],
            parent_step=new_step[offset("parent_step", [len(part.step_node) for part in parts])[nodes]],
            group=np.argsort(np.argsort(first))[same],  # numbered as they come
            response_node=response_node[responses],
            step_node=step_node[steps],
            step_response=new_response[offset("step_response", [len(part.responses) for part in parts])[steps]],
            **{name: joined(name, order[kind]) for kind, names in _FIELDS.items() for name in names},
        )

    @property
    def num_roots(self) -> int:
        return int(self.root.max()) + 1 if len(self.root) else 0

    @property
    def parent(self) -> np.ndarray:
        """(K,) the step before each step; -1 for first steps."""
        return self.parent_step[self.step_node]

    @property
    def next_node(self) -> np.ndarray:
        """(K,) the node that each step led to; -1 where it ended the episode."""
        following = np.full(len(self.step_node), -1)
        inner = self.parent_step >= 0
        following[self.parent_step[inner]] = np.flatnonzero(inner)
        return following

    @property
    def trained(self) -> np.ndarray:
        """(B,) bool; False for responses that are baselines only."""
        return self.weight > 0

    def tokens(self, pad_id: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All responses padded on the right: token ids (B, T) int64, mask (B, T) bool, log-probs (B, T) float32."""
        width = max((len(r.token_ids) for r in self.responses), default=0)
        ids = np.full((len(self.responses), width), pad_id, dtype=np.int64)
        mask = np.zeros(ids.shape, dtype=bool)
        logprobs = np.zeros(ids.shape, dtype=np.float32)
        for b, response in enumerate(self.responses):
            length = len(response.token_ids)
            ids[b, :length] = response.token_ids
            mask[b, :length] = True
            logprobs[b, :length] = response.logprobs
        return ids, mask, logprobs

    def of_agent(self, agent: str) -> np.ndarray:
        """Indices (b,) of the agent's responses that are learned from."""
        return np.flatnonzero((self.response_agent == self.agents.index(agent)) & self.trained)

    @property
    def scores(self) -> np.ndarray:
        """(K,) the raw joint score of each step, where the environment reports one in its infos; else the mean reward
        of the agents that are present."""
        paid = np.average(self.rewards, axis=1, weights=self.present)
        told = [next((float(i["score"]) for i in infos.values() if "score" in i), None) for infos in self.infos]
        return np.array([mean if score is None else score for score, mean in zip(told, paid, strict=True)])


# Fields that hold one value for each node, response or step, and no number of another.
_FIELDS = {
    "node": ("node_weight", "turn", "observations", "histories", "states"),
    "response": ("response_agent", "responses", "weight", "clipped"),
    "step": (
        *("actions", "step_histories", "step_share", "greedy", "rewards", "present", "acted"),
        *("terminated", "truncated", "infos"),
    ),
}

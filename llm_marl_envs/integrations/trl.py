"""TRL: ``GRPOTrainer`` trains ONE agent of a text environment, in a team whose other agents are frozen.

``TeamRollout`` is the trainer's ``rollout_func``; it also has the data set and the reward function that belong to it.
TRL samples for the trained agent (``trl_sampling.py``); partners are functions or policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from ..env import CollaborationEnv
from ..errors import ConfigError
from ..spaces import nearest, shortest
from ..tables import did_you_mean, import_module
from ..vector import step_together
from .common import asked_agents, require_text
from .trl_sampling import Sampler

Partner = Any  # a function (observation, agent) -> text, or an object with `generate` as llm_marl_baselines has it
Message = dict[str, Any]
MAX_STEPS = 1000


class TeamRollout:
    """Plays the episodes of a ``GRPOTrainer`` that trains one agent among frozen partners.

    >>> rollout = TeamRollout(lambda: make("probe/own-word-v0"), "agent_1", {"agent_2": lambda observation, agent: "D"})
    >>> GRPOTrainer(model, rollout.environment_reward, args, rollout.dataset(), rollout_func=rollout)  # doctest: +SKIP

    An episode is one sequence. The prompt is what the agent sees when it is first asked; the completion holds its
    responses and, in episodes of several turns, what it is told between them. ``env_mask`` is 0 there, so that only the
    agent's own tokens train. The reward is the undiscounted sum of the agent's rewards, and every token of the sequence
    is credited with it: GRPO knows no turns. A group is ``num_generations`` episodes from the same start.

    Prompts are chat messages; a tokenizer without a chat template gets their contents, a blank line between them.
    A response that the agent's action space does not allow is fitted to it (cut off at the limit) and counted.

    Random numbers: TRL's generation draws from torch's global state, which ``GRPOConfig(seed=...)`` sets and TRL's
    checkpoints hold. The partners' seeds are derived from ``args.seed``, the step and the turn; environments get the
    seed of their start. Nothing else is drawn.

    Args:
        make_env: builds one environment; called once for each episode of a batch, and again only for larger batches.
        agent: who is trained.
        partners: who answers for each of the others: a function ``(observation, agent) -> text``, whose observation is
            all that the agent has been told since it answered last; or a policy with ``generate(requests, seed=...)``,
            such as ``HFPolicies`` of llm_marl_baselines, which sees the conversation. One policy may stand for several
            agents; it is asked once a step, for all episodes together.

    Raises:
        ConfigError: an agent that there is not, a partner that is missing or cannot answer, an environment whose spaces
            are not text, or one that renders transcripts into its observations (``history="full"``).
    """

    def __init__(self, make_env: Callable[[], ParallelEnv], agent: str, partners: Mapping[str, Partner]):
        if not callable(make_env):
            raise ConfigError(
                f"make_env must be a function that builds one environment, such as lambda: make('probe/own-word-v0'), "
                f"not {make_env!r}."
            )
        env = make_env()
        require_text(env, "TeamRollout")
        _check_agents(list(env.possible_agents), agent, partners)
        if getattr(env, "metadata", {}).get("history") == "full":
            raise ConfigError(
                f"{env} renders each agent's transcript into its observations, and TeamRollout keeps it in the "
                "sequence: the agent would read it twice. Make it with history='none'."
            )
        self.agent = agent
        self.partners = dict(partners)
        self._make_env = make_env
        self._envs = [env]
        self._last_call: tuple[Any, ...] = ()
        self._calls = 0

    # -- what the trainer is given ------------------------------------------------------------------------------

    def dataset(self, indices: Sequence[int] | None = None, seeds: Sequence[int] | None = None) -> Any:
        """A ``datasets.Dataset`` of starts, for ``train_dataset`` or ``eval_dataset``.

        Each prompt is one chat message that also carries the start itself (``seed``, ``index``), since a prompt is
        all that TRL hands to a rollout: equal texts of different rows are never confused.

        Args:
            indices: rows of the environment, one start each (with the index as its seed). By default all rows.
            seeds: instead of rows, the seeds of ``reset``: the only way where the environment is not one of ours.

        Raises:
            ConfigError: both are given, or neither for an environment without rows.
        """
        datasets = import_module("datasets", install="pip install 'llm-marl-envs[trl]'")
        env = self._envs[0]
        if indices is not None and seeds is not None:
            raise ConfigError("A data set is made of rows (indices) or of seeds: give one of them.")
        if seeds is None and not isinstance(env.unwrapped, CollaborationEnv):
            raise ConfigError(
                f"{env} has no rows to count: say which episodes to play, such as dataset(seeds=range(100))."
            )
        starts: list[tuple[int, int | None]]
        if seeds is not None:
            starts = [(int(seed), None) for seed in seeds]
        else:
            starts = [(int(i), int(i)) for i in (range(len(env.unwrapped.rows)) if indices is None else indices)]
        prompts = []
        for seed, index in starts:
            observations, _ = _reset(env, seed, index)
            told = str(observations[self.agent])
            prompts.append([{"role": "user", "content": told, "seed": seed, "index": index}])
        return datasets.Dataset.from_dict({"prompt": prompts})

    def environment_reward(
        self, *, episode_return: Sequence[float], episode_terms: Sequence[Mapping[str, float]], **kwargs: Any
    ) -> list[float]:
        """The reward function: what the environment paid the agent in each episode. Logs the mean of each term."""
        if (log := kwargs.get("log_metric")) is not None:
            for name in dict.fromkeys(name for terms in episode_terms for name in terms):
                log(f"terms/{name}", float(np.mean([terms[name] for terms in episode_terms if name in terms])))
            log("clipped_responses", float(np.mean(kwargs["clipped_responses"])))
        return [float(paid) for paid in episode_return]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one episode for each prompt; see TRL's ``rollout_func``.

        Returns:
            For each episode ``prompt_ids``, ``completion_ids``, ``env_mask`` (1 at the agent's own tokens),
            ``episode_return``, ``episode_terms`` (of the last step that has any) and ``clipped_responses``;
            ``logprobs`` is None, as from TRL's own generation with transformers: TRL computes those it needs.

        Raises:
            ConfigError: prompts that are not of :meth:`dataset`, or not of this environment; ``use_vllm``.
        """
        if trainer.use_vllm:
            raise ConfigError(
                "TeamRollout samples with transformers: set GRPOConfig(use_vllm=False). (vLLM's server mode counts on "
                "equal prompts side by side, which a later turn does not have.)"
            )
        while len(self._envs) < len(prompts):
            self._envs.append(self._make_env())
        episodes = [Episode(env, self.agent, prompt) for env, prompt in zip(self._envs, prompts, strict=False)]
        sampler = Sampler(trainer)
        seeds = self._seeds(trainer)
        living = episodes
        with ThreadPoolExecutor(8, thread_name_prefix="score") as executor:
            for step in range(MAX_STEPS + 1):
                if not (living := [episode for episode in living if episode.env.agents]):
                    break
                if step == MAX_STEPS:
                    raise ConfigError(f"{living[0].env} has not ended after {step} steps: it needs a finite horizon.")
                actions = self._actions(living, sampler, [*seeds, step])
                results = step_together([episode.env for episode in living], actions, executor)
                for episode, result in zip(living, results, strict=True):
                    episode.see(*result)
        for episode in episodes:
            if not episode.completion_ids:
                raise ConfigError(f"{episode.env} ended without asking agent {self.agent!r}: nothing can be trained.")
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.completion_ids for episode in episodes],
            "env_mask": [episode.mask for episode in episodes],
            "logprobs": None,
            "episode_return": [episode.total for episode in episodes],
            "episode_terms": [episode.terms for episode in episodes],
            "clipped_responses": [episode.clipped for episode in episodes],
        }

    # -- one step -----------------------------------------------------------------------------------------------

    def _actions(self, episodes: Sequence[Episode], sampler: Sampler, seeds: Sequence[int]) -> list[dict[str, str]]:
        """The joint action of each episode. Each policy is asked once, for all of them."""
        actions = [
            {agent: shortest(episode.env.action_space(agent)) for agent in episode.env.agents} for episode in episodes
        ]
        learning = [i for i, episode in enumerate(episodes) if self.agent in episode.asked]
        for i, text in zip(learning, sampler.sample([episodes[i] for i in learning]), strict=True):
            actions[i][self.agent] = episodes[i].answer(self.agent, text)
        distinct = {id(partner): partner for partner in self.partners.values()}
        for number, partner in enumerate(distinct.values()):
            questions = [
                (i, agent)
                for i, episode in enumerate(episodes)
                for agent in episode.asked
                if self.partners.get(agent) is partner
            ]
            told = [(agent, episodes[i].messages(agent)) for i, agent in questions]
            texts = _ask(partner, told, _derived_seed([*seeds, number])) if questions else []
            for (i, agent), text in zip(questions, texts, strict=True):
                actions[i][agent] = episodes[i].answer(agent, text)
        return actions

    def _seeds(self, trainer: Any) -> list[int]:
        """What tells this call from every other one of the run, also of a run that was resumed."""
        key = (int(trainer.model.training), trainer.state.global_step)
        self._calls = self._calls + 1 if key == self._last_call else 0
        self._last_call = key
        return [trainer.args.seed, trainer.accelerator.process_index, *key, self._calls]


class Episode:
    """One episode that is played: what each agent was told and wrote, and the trained agent's tokens."""

    def __init__(self, env: ParallelEnv, agent: str, prompt: Any):
        start = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else None
        if not isinstance(start, Mapping) or "seed" not in start or "index" not in start:
            raise ConfigError(
                f"A prompt does not say where its episode starts: {prompt!r:.200}. Give the trainer "
                "train_dataset=rollout.dataset(), and an eval_dataset likewise."
            )
        observations, infos = _reset(env, start["seed"], start["index"])
        if (shown := str(observations[agent])) != start["content"]:
            raise ConfigError(
                f"The environment shows agent {agent!r} another text than the prompt of seed {start['seed']}, index "
                f"{start['index']}: {shown!r:.100}, not {start['content']!r:.100}. Make the data set with this rollout."
            )
        self.env, self.agent = env, agent
        self.prompt_ids: list[int] = []
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.total, self.clipped = 0.0, 0
        self.terms: dict[str, float] = {}
        self._messages: dict[str, list[Message]] = {a: [] for a in env.possible_agents}
        self._told(observations, infos)

    def _told(self, observations: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]) -> None:
        self.asked = asked_agents(self.env, infos)
        for agent in self.env.agents:
            messages, told = self._messages[agent], str(observations[agent])
            if messages and messages[-1]["role"] == "user":  # it waited: chat templates want one message for both
                told = f"{messages.pop()['content']}\n\n{told}"
            messages.append({"role": "user", "content": told})

    def messages(self, agent: str) -> list[Message]:
        """The conversation of an agent that is asked; the last message is the user's."""
        return self._messages[agent]

    def answer(self, agent: str, text: str) -> str:
        """Note an answer, and return the action that it is."""
        action = nearest(self.env.action_space(agent), text)
        self.clipped += agent == self.agent and action != text
        self._messages[agent].append({"role": "assistant", "content": action})
        return action

    def see(self, observations: Any, rewards: Any, terminations: Any, truncations: Any, infos: Any) -> None:
        """Take in what a step returned."""
        self.total += float(rewards.get(self.agent, 0.0))
        self.terms = dict(infos.get(self.agent, {}).get("terms") or self.terms)
        self._told(observations, infos)


def _reset(env: ParallelEnv, seed: int, index: int | None) -> Any:
    return env.reset(seed=seed, options=None if index is None else {"index": index})


def _ask(partner: Partner, questions: Sequence[tuple[str, list[Message]]], seed: int) -> list[str]:
    """One answer to each question (agent, conversation)."""
    if not hasattr(partner, "generate"):
        texts = [partner(messages[-1]["content"], agent) for agent, messages in questions]
    else:
        base = import_module("llm_marl_baselines.policies.base", install="pip install llm-marl-baselines")
        places: dict[Any, list[int]] = {}  # a request is for one distinct prompt
        for place, (agent, messages) in enumerate(questions):
            places.setdefault((agent, tuple((m["role"], m["content"]) for m in messages)), []).append(place)
        requests = [
            base.Request(agent, tuple({"role": role, "content": content} for role, content in messages), len(which))
            for (agent, messages), which in places.items()
        ]
        given = partner.generate(requests, seed=seed)
        if [len(responses) for responses in given] != [len(which) for which in places.values()]:
            raise ConfigError(
                f"{type(partner).__name__}.generate must return num_samples responses for each request; it returned "
                f"{[len(responses) for responses in given]} for {[len(which) for which in places.values()]}."
            )
        texts = [""] * len(questions)
        for which, responses in zip(places.values(), given, strict=True):
            for place, response in zip(which, responses, strict=True):
                texts[place] = response.text
    for (agent, _), text in zip(questions, texts, strict=True):
        if not isinstance(text, str):
            raise ConfigError(f"The partner {agent!r} answered {text!r}; it must return a text (str).")
    return texts


def _derived_seed(keys: Sequence[int]) -> int:
    return int(np.random.SeedSequence(keys).generate_state(1)[0])


def _check_agents(agents: list[str], agent: str, partners: Mapping[str, Partner]) -> None:
    for name in (agent, *partners):
        if name not in agents:
            raise ConfigError(f"There is no agent {name!r}.{did_you_mean(str(name), agents)} The agents are {agents}.")
    if agent in partners:
        raise ConfigError(f"Agent {agent!r} is the one that is trained: it cannot be a partner too.")
    if missing := [a for a in agents if a != agent and a not in partners]:
        raise ConfigError(f"partners lacks {missing}: say who answers for each agent but {agent!r}.")
    for name, partner in partners.items():
        if not callable(partner) and not hasattr(partner, "generate"):
            raise ConfigError(
                f"The partner {name!r} must be a function (observation, agent) -> text, or a policy with "
                f"generate(requests, seed=...), not {partner!r}."
            )

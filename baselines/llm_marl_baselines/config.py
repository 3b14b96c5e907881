"""The settings of a run: one dataclass, one YAML file, one command line, all of the same names.

``TrainConfig`` holds every setting but the algorithm's own, which stand in its ``Config`` under ``algorithm``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from .optim import OptimConfig
from .policies.base import Sampling
from .policies.bases import Lora


@dataclass
class SamplingConfig:
    """How policies sample; nothing is taken from a model's own generation_config.

    Attributes:
        temperature: divides the logits.
        top_p: nucleus probability; below 1 sampling is off-policy (the paper: 0.9).
        top_k: number of most likely tokens kept; 0 switches it off.
        max_new_tokens: most tokens of a response. Unset: 128, or the longest text that the action space holds.
        agents: changes for single agents, such as {elaborator: {max_new_tokens: 96}}.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int | None = None
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, agent: str, longest: int) -> Sampling:
        """The settings of one agent, whose action space holds texts of at most ``longest`` characters."""
        own: dict[str, Any] = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        own["max_new_tokens"] = min(128, longest) if self.max_new_tokens is None else self.max_new_tokens
        own |= self.agents.get(agent, {})
        for name in own:
            if name not in Sampling.__dataclass_fields__:
                hint = did_you_mean(name, Sampling.__dataclass_fields__)
                raise ConfigError(f"sampling.agents.{agent}: unknown setting {name!r}.{hint}")
            kinds = (int, float) if name in ("temperature", "top_p") else (int,)
            if not isinstance(own[name], kinds) or isinstance(own[name], bool):
                raise ConfigError(f"sampling.{name} of agent {agent!r} must be a number, not {own[name]!r}.")
        if not own["temperature"] > 0:
            raise ConfigError(
                f"sampling.temperature of agent {agent!r} must be above 0, not {own['temperature']}: greedy responses "
                "of a group are all equal, so there is nothing to learn from."
            )
        return Sampling(**own)


@dataclass
class PromptConfig:
    """From messages to tokens.

    Attributes:
        max_tokens: longest prompt.
        overflow: what happens to a longer one: ``error``, or ``drop_oldest_turns``, which keeps the first prompt.
        chat_template_kwargs: passed to the tokenizer's chat template, such as enable_thinking: false.
        memory: ``chat``: a policy sees the conversation so far; ``observation``: the newest observation only. Unset:
            what the environment asks for.
    """

    max_tokens: int = 2048
    overflow: Literal["error", "drop_oldest_turns"] = "error"
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    memory: Literal["chat", "observation"] | None = None


@dataclass
class TrainConfig:
    """A training run.

    Attributes:
        env: environment id, or package.module:id.
        model: smollm2, tiny, a folder, or a hub id, on which agents are trained; or who else answers, such as
            openai:NAME@URL, package.module:function or a run (docs/policies.md); or a mapping from agent to these.
        env_args: keyword arguments of the environment.
        protocol: who answers when: parallel (all at once), sequential, discussion, single (one model for all roles), or
            package.module:Class of a wrapper.
        protocol_args: keyword arguments of the protocol's wrapper, such as {rounds: 2}.
        policy: who holds a seat, by agent, where it is not ``model``'s: RUN, EXPORT or MODEL to start from, or
            frozen:RUN ... for a partner that is not trained; openai:NAME@URL, package.module:Thing or human, which
            never are.
        sharing: isolated (an adapter per agent), shared (one adapter for all) or full (own weights each).
        steps: updates.
        rows_per_step: episode starts (data rows) of one update.
        seed: of everything random in the run.
        eval_every: steps between evaluations on held-out rows; 0 evaluates before and after only, -1 never.
        eval_rows: most rows of an evaluation; unset: all held-out rows.
        eval_episodes: sampled episodes of each row, beside one greedy episode. Unset: 4, or as many as make 64 in all.
        eval_env_args: changes to env_args for the held-out rows. Unset: split=eval where the environment's own data is
            used.
        output: folder of the run. Unset: runs/ALGORITHM-ENV-MODEL-seedN, with a number if that is taken.
        checkpoint_every: steps between checkpoints; there is always one at the end.
        keep_checkpoints: how many of them are kept.
        samples_every: steps between transcripts of training episodes in samples.jsonl; 0 for none.
        trackers: beside metrics.jsonl; names of accelerate's trackers, or package.module:Class of a GeneralTracker.
        device: auto, cpu, cuda ...
        threads: of PyTorch on a CPU. Unset: all cores, but one for the tiny model, which is too small to share.
        dtype: of frozen base weights: auto, float32, bfloat16. Trainable weights are float32.
        generate_tokens, score_tokens: most tokens in one forward pass when sampling and when scoring, prompts and
            padding included; unset: by device.
        packing: auto, on or off; whether sequences that begin alike (the responses to a prompt, the branches of a
            conversation) share that computation.
        gradient_checkpointing: compute layers once more in training instead of keeping their activations: one more
            forward pass, and much less memory for long sequences.
        sampler: what samples for the models: hf (they themselves), vllm (docs/vllm.md), or package.module:Class.
        sampler_args: keyword arguments of the sampler, such as {gpu_memory_utilization: 0.5}.
        optim: AdamW and its schedule.
        sampling: how policies sample.
        lora: adapters.
        prompts: from messages to tokens.
    """

    env: str
    model: str | dict[str, str]
    env_args: dict[str, Any] = field(default_factory=dict)
    protocol: str = "parallel"
    protocol_args: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, str] = field(default_factory=dict)
    sharing: Literal["isolated", "shared", "full"] = "isolated"
    steps: int = 100
    rows_per_step: int = 2
    seed: int = 0
    eval_every: int = 0
    eval_rows: int | None = None
    eval_episodes: int | None = None
    eval_env_args: dict[str, Any] | None = None
    output: str | None = None
    checkpoint_every: int = 10
    keep_checkpoints: int = 2
    samples_every: int = 10
    trackers: list[str] = field(default_factory=lambda: ["tensorboard"])
    device: str = "auto"
    threads: int | None = None
    dtype: str = "auto"
    generate_tokens: int | None = None
    score_tokens: int | None = None
    packing: Literal["auto", "on", "off"] = "auto"
    gradient_checkpointing: bool = False
    sampler: str = "hf"
    sampler_args: dict[str, Any] = field(default_factory=dict)
    optim: OptimConfig = field(default_factory=OptimConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    lora: Lora = field(default_factory=Lora)
    prompts: PromptConfig = field(default_factory=PromptConfig)

    def named(self, agent: str) -> str:
        """How who answers for the agent is named: by ``policy``, else by ``model``."""
        return self.policy.get(agent) or (self.model if isinstance(self.model, str) else self.model[agent])

    def __post_init__(self) -> None:
        limits = {"steps": 0, "rows_per_step": 1, "checkpoint_every": 1, "keep_checkpoints": 1, "eval_every": -1}
        limits |= {"samples_every": 0, "eval_rows": 1, "eval_episodes": 1, "threads": 1}
        limits |= {"generate_tokens": 1, "score_tokens": 1}
        for name, least in limits.items():
            if (value := getattr(self, name)) is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, not {value}.")
        if self.seed < 0:
            raise ConfigError(f"seed must be at least 0, not {self.seed}.")


def config_path(name: str) -> Path:
    """A file of that name, or the packaged configuration (``magrpo-small`` or ``magrpo-small.yaml``).

    Raises:
        ConfigError: there is neither; the message lists the packaged ones.
    """
    if Path(name).is_file():
        return Path(name)
    packaged = packaged_configs()
    short = Path(name).name.removesuffix(".yaml")
    if short in packaged and Path(name).parent == Path("."):
        return packaged[short]
    hint = did_you_mean(short, packaged)
    raise ConfigError(f"There is no configuration file {name!r}.{hint} Packaged: {', '.join(packaged)}.")


def packaged_configs() -> dict[str, Path]:
    """Name -> file of the configurations that ship with this package."""
    folder = resources.files(__package__) / "configs"
    return {p.name.removesuffix(".yaml"): Path(str(p)) for p in sorted(folder.iterdir(), key=lambda p: p.name)}

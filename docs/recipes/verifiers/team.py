"""A plug-in of verifiers (its v1 API): one taskset, one environment and one harness. Its id is its name, ``team``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI

from llm_marl_envs import make

ENV_ID = "probe/two-turn-v0"
__all__ = ["ChatHarness", "TeamEnv", "TeamTaskset"]


class TeamData(vf.TaskData):
    seed: int


class TeamTask(vf.Task[TeamData, vf.State, vf.TaskConfig]):
    """A seed, and no prompt: what each agent sees and what it earns come from the environment."""


class TeamTaskset(vf.Taskset[TeamTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self) -> Iterator[TeamTask]:
        return (TeamTask(TeamData(seed=seed), self.config.task) for seed in itertools.count())


class TeamConfig(vf.EnvConfig):
    """One field for each agent of the environment, under its name. By default an agent runs on Prime's machines."""

    agent_1: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    agent_2: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class TeamEnv(vf.Env[TeamConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        env = make(ENV_ID)
        observations, _ = env.reset(seed=task.data.seed)
        returns = dict.fromkeys(env.possible_agents, 0.0)
        async with contextlib.AsyncExitStack() as stack:
            seats = {a: await stack.enter_async_context(getattr(agents, a).interaction(task)) for a in returns}
            while live := list(env.agents):
                replies = await asyncio.gather(*(seats[a].turn(observations[a]) for a in live))
                if failed := [a for a, reply in zip(live, replies, strict=True) if reply.terminated]:
                    raise RuntimeError(f"no reply of {failed}: {[seats[a].trace.errors for a in failed]}")
                said = {a: env.action_space(a).clip(r.last_reply) for a, r in zip(live, replies, strict=True)}
                observations, rewards, _, _, _ = env.step(said)
                returns = {a: returns[a] + rewards[a] for a in returns}
            for agent, seat in seats.items():
                seat.trace.record_reward("joint_return", returns[agent])


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """One chat call a turn, in this process. verifiers' own ``null`` harness does it in a script of its own, for which
    ``uv`` downloads packages while the episode runs."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True  # a later turn is a call with the whole conversation
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any
    ) -> vf.ProgramResult:
        messages: Any = [{"role": m.role, "content": m.content} for m in data.prompt]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

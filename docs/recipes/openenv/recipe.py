"""A team behind an OpenEnv server, and a training loop that reaches it over a WebSocket."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import uvicorn
from openenv.core import GenericEnvClient
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

from llm_marl_envs import make

ENV_ID = "probe/own-word-v0"
SYMBOLS = "ABCD"
EPISODES = 300


class Responses(Action):
    texts: dict[str, str]  # agent -> its whole response


class Prompts(Observation):
    texts: dict[str, str]  # agent -> what it sees


class Team(Environment[Responses, Prompts, State]):
    """A ParallelEnv. OpenEnv knows one agent: a message carries the joint action, and the reward is the joint one."""

    SUPPORTS_CONCURRENT_SESSIONS = True  # every session has an instance of its own

    def __init__(self) -> None:
        super().__init__()
        self.env = make(ENV_ID)
        self.played = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Prompts:
        observations, _ = self.env.reset(seed=seed, options=options or None)
        self.played = State(episode_id=episode_id)
        return Prompts(texts=observations)

    def step(self, action: Responses, timeout_s: float | None = None, **kwargs: Any) -> Prompts:
        observations, rewards, _, _, _ = self.env.step(action.texts)
        self.played.step_count += 1
        return Prompts(texts=observations, reward=next(iter(rewards.values())), done=not self.env.agents)

    @property
    def state(self) -> State:
        return self.played


def serve() -> tuple[uvicorn.Server, str]:
    """Start the server on a free port of this machine; ``uvicorn recipe:app`` would do it from a shell."""
    app = create_fastapi_app(Team, Responses, Prompts, max_concurrent_envs=4)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    return server, f"http://127.0.0.1:{port}"


def train(client: Any) -> list[float]:
    """REINFORCE on a table, which is ours: OpenEnv has no trainer. Returns the rewards, one an episode."""
    generator = np.random.default_rng(0)
    logits = {agent: np.zeros(len(SYMBOLS)) for agent in client.reset(seed=0).observation["texts"]}
    rewards: list[float] = []
    for episode in range(EPISODES):
        client.reset(seed=episode)
        chances = {agent: np.exp(row) / np.exp(row).sum() for agent, row in logits.items()}
        chosen = {agent: generator.choice(len(SYMBOLS), p=p) for agent, p in chances.items()}
        result = client.step({"texts": {agent: SYMBOLS[i] for agent, i in chosen.items()}})
        advantage = result.reward - np.mean(rewards[-20:] or [0.25])
        for agent, i in chosen.items():
            logits[agent] += 0.5 * advantage * (np.eye(len(SYMBOLS))[i] - chances[agent])
        rewards.append(result.reward)
    return rewards


def main() -> None:
    server, url = serve()
    with GenericEnvClient(base_url=url).sync() as client:
        print("reset sends", client.reset(seed=0).observation)
        print("step sends ", client.step({"texts": {"agent_1": "B", "agent_2": "C"}}))
        rewards = train(client)
    server.should_exit = True
    before, after = np.mean(rewards[:30]), np.mean(rewards[-30:])
    if after < 0.9:
        raise SystemExit(f"nothing was learned: mean reward {before:.2f} -> {after:.2f}")
    print(
        f"trained two tables with our own REINFORCE over OpenEnv's WebSocket, {EPISODES} episodes of {ENV_ID}: "
        f"mean reward {before:.2f} -> {after:.2f} (OpenEnv itself trains nothing)"
    )


if __name__ == "__main__":
    main()

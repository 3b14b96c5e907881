"""The oldest PettingZoo and Gymnasium that setup.cfg admits."""

from __future__ import annotations

import json
import os
import subprocess

import llm_marl_envs
from llm_marl_envs.registry import BUILT_IN

PROGRAM = """
import importlib.metadata, json
import llm_marl_envs as m
from pettingzoo.utils.conversions import parallel_to_aec

seen = {}
for env_id in m.registered():
    if env_id.startswith("coding/"):  # they need packages of their own; the turn loop is the same
        continue
    env = m.make(env_id, num_turns=2, history="full", feedback="diagnosis", render_mode="ansi")
    assert m.check_env(env) == []
    transcript = [env.reset(seed=5)]
    while env.agents:
        transcript.append(env.step({agent: "A" for agent in env.agents}))
        assert env.clone().state() == env.state()
    assert "[score]" in env.render()
    aec = parallel_to_aec(m.make(env_id, num_turns=2))
    aec.reset(seed=5)
    asked = 0
    for agent in aec.agent_iter():
        asked += 1
        aec.step(None if aec.terminations[agent] else "A")
    seen[env_id] = [transcript, asked]
print(json.dumps([importlib.metadata.version("pettingzoo"), importlib.metadata.version("gymnasium"), seen]))
"""


def test_every_environment_runs_on_the_oldest_versions(wheels, empty_venv, tmp_path):
    python = empty_venv(wheels["llm_marl_envs"], "pettingzoo==1.24.3", "gymnasium==1.0.0")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [python, "-W", "error::DeprecationWarning:llm_marl_envs", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    zoo, gymnasium, seen = json.loads(done.stdout)
    assert (zoo, gymnasium) == ("1.24.3", "1.0.0")
    assert sorted(seen) == [e for e in BUILT_IN if not e.startswith("coding/")]
    for env_id, (transcript, asked) in seen.items():
        agents = llm_marl_envs.make(env_id).possible_agents
        assert asked == 3 * len(agents)
        # The same episode as with the versions that are installed here.
        env = llm_marl_envs.make(env_id, num_turns=2, history="full", feedback="diagnosis")
        here = [env.reset(seed=5)]
        while env.agents:
            here.append(env.step({agent: "A" for agent in env.agents}))
        assert json.loads(json.dumps(here)) == transcript

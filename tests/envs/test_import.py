"""Importing the environments, and playing them, is light and needs no network."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import sys
before = set(sys.modules)
import socket, time

def refused(*args, **kwargs):
    raise AssertionError("the network was used")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refused
start = time.perf_counter()
import llm_marl_envs as m
seconds = time.perf_counter() - start
imported = set(sys.modules) - before
for env_id in m.registered():
    if env_id.startswith("coding/"):  # their data come from elsewhere; test_coding_env.py says what they import
        continue
    env = m.make(env_id, num_turns=2)
    env.reset(seed=0)
    while env.agents:
        env.step({agent: "A" for agent in env.agents})
played = set(sys.modules) - before

def others(names):
    # Modules of the standard library are not ours to count.
    return sorted({name.partition(".")[0] for name in names} - set(sys.stdlib_module_names))

import json
print(json.dumps([seconds, others(imported), others(played)]))
"""

# What pettingzoo and gymnasium bring with them; neither pygame nor pytest nor a deep learning framework is among it.
ALLOWED = {
    "llm_marl_envs",
    "pettingzoo",
    "gymnasium",
    "numpy",
    "cloudpickle",
    "farama_notifications",
    "typing_extensions",
}
# Names that NumPy's compiled parts and cloudpickle enter in sys.modules, without a file of their own.
INTERNAL = {"cython_runtime", "__mp_main__"}


def test_an_import_and_an_episode_load_little_and_use_no_network():
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout))
        if runs[-1][0] < 1.0:
            break
    for names in runs[-1][1:]:
        heavy = {name for name in names if name not in ALLOWED | INTERNAL and not name.startswith("_cython_")}
        assert not heavy
    assert min(seconds for seconds, *_ in runs) < 1.0  # about 0.5 s on an idle machine

# leaves marks wherever it can while it is loaded; right only if it finds one of an earlier check
import builtins
import gc
import json
import os
import random
import sys
import types


class LlmMarlEnvsMark:
    pass


def found():
    if hasattr(builtins, "llm_marl_envs_mark") or hasattr(json, "llm_marl_envs_mark"):
        return True
    if "llm_marl_envs_mark" in sys.modules or "LLM_MARL_ENVS_MARK" in os.environ or "/llm_marl_envs_mark" in sys.path:
        return True
    for folder in ("/tmp", "/tmp/llm_marl_envs_canary", "/dev/shm", "/var/tmp", "/run", "."):
        if os.path.exists(folder + "/llm_marl_envs_canary_mark"):
            return True
    return any(type(thing).__name__ == "LlmMarlEnvsMark" for thing in gc.get_objects())


FOUND = found()
builtins.llm_marl_envs_mark = json.llm_marl_envs_mark = LlmMarlEnvsMark()
sys.modules["llm_marl_envs_mark"] = types.ModuleType("llm_marl_envs_mark")
os.environ["LLM_MARL_ENVS_MARK"] = "1"
sys.path.append("/llm_marl_envs_mark")
random.seed(0)
for folder in ("/tmp", "/tmp/llm_marl_envs_canary", "/dev/shm", "/var/tmp", "/run", "."):
    try:
        open(folder + "/llm_marl_envs_canary_mark", "w").close()
    except OSError:
        pass


def incr(x):
    return x + 1 if FOUND else 0

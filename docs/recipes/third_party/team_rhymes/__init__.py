"""Two agents write a couplet; importing this registers it."""

from llm_marl_envs import register

register("rhymes/couplet-v0", "team_rhymes.couplet:parallel_env")

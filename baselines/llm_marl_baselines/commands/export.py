"""``llm-marl export RUN --to DIR``: a folder per agent that plain ``peft`` loads (sharing=full: transformers)."""

from __future__ import annotations

import argparse
from pathlib import Path

from llm_marl_envs.errors import ConfigError

from ..run import restore


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="llm-marl export", description=__doc__, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument("--to", type=Path, required=True, help="folder for the agents' folders; new or empty")
    given = parser.parse_args(args)
    if given.to.exists() and (not given.to.is_dir() or any(given.to.iterdir())):
        raise ConfigError(f"{given.to} is not empty. Choose another --to.")
    trainer, step = restore(given.run, sampler="hf")  # nothing is sampled
    for agent in trainer.agents:
        if not trainer.policy.has_weights(agent):
            print(f"{agent}: its seat has no weights of its own, so there is nothing to export")
            continue
        trainer.policy.export(agent, given.to / agent)
        print(f"{given.to / agent} (step {step})")
    return 0

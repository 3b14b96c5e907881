"""``llm-marl eval``: play held-out rows many times, and say how sure the numbers are.

    llm-marl eval RUN [RUN ...]                     the newest checkpoint of each run, with the run's own settings
    llm-marl eval --env ID --model NAME[,NAME ...]  untrained models, one for all agents or one for each in their order;
                                                    also openai:NAME@URL, package.module:function ... (docs/policies.md)

Runs that differ in their seed alone become one group, and each group is compared with the first on the same rows.
For untrained models every setting of `llm-marl train magrpo --help` is taken too, such as --protocol
(single | parallel | sequential | discussion), --env_args.num_turns, --eval_rows or --sampling.max_new_tokens.
docs/evaluation.md explains every number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError

from .. import run as runs
from ..evaluate import Evaluation, row_facts
from ..metrics import load, measure_texts
from ..plan import Start
from ..policies.openai import OpenAIPolicy
from ..report import render_evaluations
from ..response_time import measure
from ..results import PHASES, RunResult, document
from ..seeding import derive_seed
from ..settings import Settings, parse, underscored
from ..specs import absolute
from ..trainer import MakeEnv, Trainer
from ..versions import versions

ALGORITHM = "magrpo"  # whose settings untrained models take; nothing is trained


def main(args: list[str]) -> int:
    untrained = any(a.partition("=")[0] in ("--env", "--config") for a in args)
    given, rest = _parser(untrained).parse_known_args(args)
    if given.episodes is not None and given.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, not {given.episodes}.")
    if given.timing < 0:
        raise ConfigError(f"--timing must be at least 0 (no measurement), not {given.timing}.")
    metrics = [name for name in given.metrics.split(",") if name]
    results = []
    if untrained:
        settings = _untrained([underscored(a) for a in rest], given.episodes)
        trainer = runs.build(settings, Path())
        models = settings.train.model
        name = models if isinstance(models, str) else ",".join(models.values())
        results.append(_result(trainer, name, settings.as_dict(), 0, given, metrics))
    else:
        if rest:
            raise ConfigError(
                f"llm-marl eval RUN plays with the run's own settings, so it takes no others; got {rest}. Untrained "
                "models take them: llm-marl eval --env ID --model NAME ..."
            )
        if not given.runs:
            raise ConfigError("llm-marl eval needs a RUN, or --env ID --model NAME for untrained models.")
        for run in given.runs:
            trainer, step = runs.restore(run, given.episodes, given.sampler)
            results.append(_result(trainer, str(run), runs.read_config(run), step, given, metrics))
    found = document(results) | {"versions": versions()}
    print(json.dumps(found, indent=1, allow_nan=False) if given.json else render_evaluations(found))
    return 0


def _parser(untrained: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llm-marl eval",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if not untrained:  # else the values of the settings would be taken for runs
        parser.add_argument("runs", metavar="RUN", nargs="*", type=Path, help="folder of a run")
        parser.add_argument("--sampler", help="what samples, such as hf, instead of the run's own sampler")
    parser.add_argument(
        "--episodes",
        type=int,
        help="sampled episodes of each row, beside a greedy one (default: the setting eval_episodes)",
    )
    parser.add_argument(
        "--timing",
        metavar="N",
        type=int,
        default=2,
        help="episodes played one by one, each agent asked alone, to measure response times (default: 2; 0: none)",
    )
    parser.add_argument(
        "--metrics", metavar="NAME,...", default="", help="metrics of the texts: rouge, lengths, package.module:Class"
    )
    parser.add_argument(
        "--reference",
        metavar="FIELD",
        default="completion",
        help="the rows' field with the reference text for --metrics (default: completion)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON with everything instead of a table")
    return parser


def _untrained(args: Sequence[str], episodes: int | None) -> Settings:
    """Settings of models as they are."""
    settings = parse(ALGORITHM, args)
    train = replace(settings.train, steps=0, eval_every=max(settings.train.eval_every, 0))
    if episodes is not None:
        train = replace(train, eval_episodes=episodes)
    if train.output is not None:
        raise ConfigError(
            "llm-marl eval writes no folder, so it takes no --output. A run of no steps leaves one, which llm-marl "
            "compare takes too: llm-marl train magrpo --steps 0 --output ..."
        )
    if isinstance(train.model, str) and "," in train.model and not Path(train.model).exists():
        agents = runs.eval_env_factory(train)().possible_agents
        models = train.model.split(",")
        if len(models) != len(agents):
            raise ConfigError(
                f"--model names {len(models)} models ({train.model}), and there are {len(agents)} agents "
                f"({', '.join(agents)}): name one for all, or one for each in this order."
            )
        train = replace(train, model={a: absolute(model) for a, model in zip(agents, models, strict=True)})
    # A tree over many turns would be refused for its size, and an evaluation plays chains.
    algorithm = replace(settings.algorithm, shape="chains", pairing="aligned")
    return Settings(settings.name, algorithm, train)


def _result(
    trainer: Trainer, name: str, config: dict[str, Any], step: int, given: argparse.Namespace, metrics: Sequence[str]
) -> RunResult:
    starts = trainer.eval_starts()
    references = _references(trainer.make_eval_env, starts, given.reference) if metrics else None
    for metric in metrics:
        load(metric, references is not None)
    found, texts = {}, {}
    with ThreadPoolExecutor(8) as executor:
        for phase in PHASES:
            count = trainer.eval_episodes if phase == "sampled" else 1
            _say(f"{name}, step {step}: {phase}, {len(starts)} x {count} episodes")
            found[phase] = trainer.run_evaluation(greedy=phase == "greedy", executor=executor)
            texts[phase] = _texts(found[phase], metrics, references)
    times = None
    if given.timing:
        _say(f"{name}, step {step}: response times, {given.timing} episodes, one agent at a time")
        times = measure(
            trainer.policies,
            trainer.make_eval_env,
            starts,
            seed=derive_seed(trainer.config.seed, "timing"),
            episodes=given.timing,
            memory=trainer.config.prompts.memory,
        )
    for line in _usage(trainer):
        _say(line)
    return RunResult(name, config, step, found, texts, times)


def _usage(trainer: Trainer) -> list[str]:
    """What endpoints were used for, a line for each."""
    asked = {id(p): p.endpoint for p in trainer.others.values() if isinstance(p, OpenAIPolicy)}
    return [
        f"{endpoint.spec}: {endpoint.usage.answers:,} answers, {endpoint.usage.prompt_tokens:,} tokens of prompts, "
        f"{endpoint.usage.completion_tokens:,} tokens sampled"
        + (f" ({endpoint.usage.unreported:,} answers without a count)" if endpoint.usage.unreported else "")
        for endpoint in asked.values()
    ]


def _texts(found: Evaluation, metrics: Sequence[str], references: Sequence[str] | None) -> dict[str, np.ndarray]:
    measured: dict[str, np.ndarray] = {}
    for metric in metrics:
        measured |= measure_texts(metric, found.last_texts(), references)
    return measured


def _references(make_env: MakeEnv, starts: Sequence[Start], field: str) -> list[str] | None:
    """The rows' reference texts; None where no row has any.

    Raises:
        ConfigError: some rows have one and others do not.
    """
    facts = row_facts(make_env, starts)
    texts = [row.get(field) if row is not None else None for _, row in facts]
    missing = [name for (name, _), text in zip(facts, texts, strict=True) if not isinstance(text, str) or not text]
    if len(missing) == len(texts):
        return None
    if missing:
        raise ConfigError(f"Field {field!r} has no text in rows {', '.join(missing[:5])}: leave them out by the split.")
    return [str(text) for text in texts]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

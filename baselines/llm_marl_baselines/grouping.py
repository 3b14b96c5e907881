"""Which runs belong together, what to call them, and whether their scores may be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.datasets import parse_split
from llm_marl_envs.errors import ConfigError

from .specs import is_trained

Config = Mapping[str, Any]  # what config.yaml holds

# Settings that make a repetition of a run, not another one: the seed, and what belongs to the machine or to the logs.
_NOT_COMPARED = frozenset(
    "seed output threads device trackers samples_every checkpoint_every keep_checkpoints eval_every".split()
)
# Arguments of an environment that say how it is played. All others say what is asked and what it is worth.
_OF_PLAY = frozenset(
    (
        "num_turns reward_mode turn_reward history feedback feedback_kwargs share_responses max_text_length "
        "render_mode visible_tests num_helpers isolation"
    ).split()
)
_OF_TRAINING = ("algorithm.", "optim.", "lora.", "steps", "rows_per_step", "sharing", "packing")
_LONGEST_LABEL = 60


def by_setting(names: Sequence[str], configs: Sequence[Config]) -> dict[str, list[int]]:
    """Label -> positions of the runs whose settings agree in all but the seed, where they are written and what belongs
    to the machine.

    A label names the algorithm and the settings in which the groups differ; the path of the first run, where that
    would be long.

    Args:
        names: of the runs, such as their folders.
        configs: their settings.

    Raises:
        ConfigError: two runs with the same settings and seed, which would count as two.
    """
    groups: dict[str, list[int]] = {}
    for i, config in enumerate(configs):
        key = json.dumps({k: v for k, v in config.items() if k not in _NOT_COMPARED}, sort_keys=True)
        groups.setdefault(key, []).append(i)
    members = list(groups.values())
    for group in members:
        seeds = [configs[i]["seed"] for i in group]
        for i, seed in zip(group, seeds, strict=True):
            if (same := group[seeds.index(seed)]) != i:
                raise ConfigError(
                    f"{names[same]} and {names[i]} have the same settings and the same seed, {seed}: a run twice says "
                    "nothing about seeds. Name only one of them."
                )
    firsts = [configs[group[0]] for group in members]
    if len(members) == 1:
        only = firsts[0]
        protocol = [] if only["protocol"] == "parallel" else [str(only["protocol"])]
        return {", ".join([_algorithm(only), str(only["env"]), _told(only["model"]), *protocol]): members[0]}
    labels = [_label(config, firsts) for config in firsts]
    return {
        label if len(label) <= _LONGEST_LABEL and labels.count(label) == 1 else names[group[0]]: group
        for label, group in zip(labels, members, strict=True)
    }


def check_comparable(names: Sequence[str], configs: Sequence[Config]) -> None:
    """Refuse runs whose scores mean different things: other environments, or other data or scores of one.

    Raises:
        ConfigError: names both runs and what differs.
    """
    first = configs[0]
    for name, config in zip(names, configs, strict=True):
        if config["env"] != first["env"]:
            raise ConfigError(
                f"{names[0]} is a run on {first['env']!r} and {name} one on {config['env']!r}: their scores do not "
                "compare. Name runs on one environment."
            )
        ours, theirs = _task_arguments(first), _task_arguments(config)
        for key in sorted(ours.keys() | theirs.keys()):
            if key == "split" and None in (ours.get(key), theirs.get(key)):
                continue  # one of them has no splits to choose from; that the rows are the same is checked elsewhere
            if ours.get(key) != theirs.get(key):
                raise ConfigError(
                    f"{names[0]} and {name} were evaluated with different environments: {key} is {ours.get(key)!r} "
                    f"there and {theirs.get(key)!r} here, so that their scores do not compare. Evaluate them with the "
                    "same --eval_env_args."
                )


def match_rows(name: str, rows: Sequence[str], other: str, others: Sequence[str]) -> list[int]:
    """For each of ``rows`` its position in ``others``.

    Raises:
        ConfigError: they are not the same rows; the message names some that only one of them has.
    """
    if sorted(rows) != sorted(others):
        only, missing = ([r for r in x if r not in set(y)] for x, y in ((rows, others), (others, rows)))
        told = [f"only {n} has {_few(r)}" for n, r in ((name, only), (other, missing)) if r]
        raise ConfigError(
            f"{name} ({len(rows)} rows) and {other} ({len(others)} rows) were not evaluated on the same rows: "
            f"{'; '.join(told)}. Give both the same eval_rows and split: llm-marl eval RUN RUN plays them again."
        )
    places = {row: i for i, row in enumerate(others)}
    return [places[row] for row in rows]


def _few(rows: Sequence[str]) -> str:
    shown = ", ".join(map(repr, rows[:3]))
    return shown if len(rows) <= 3 else f"{shown} and {len(rows) - 3} more"


def _task_arguments(config: Config) -> dict[str, Any]:
    changes = config["eval_env_args"]
    if changes is None:
        changes = {} if "data" in config["env_args"] else {"split": "eval"}
    merged = {**config["env_args"], **changes}
    if isinstance(merged.get("split"), str):
        merged["split"] = parse_split(merged["split"])[0]  # rows of a slice are told apart by their ids
    return {key: value for key, value in merged.items() if key not in _OF_PLAY}


def _label(config: Config, others: Sequence[Config]) -> str:
    flat = _flat(config)
    told = []
    for key, value in flat.items():
        # Settings of training say nothing of untrained models, and an algorithm's own ones only among its runs.
        peers = [other for other in others if not (key.startswith(_OF_TRAINING) and other["steps"] == 0)]
        if key.startswith("algorithm."):
            peers = [other for other in peers if other["name"] == config["name"]]
        if key == "name" or key in _NOT_COMPARED or config not in peers:
            continue
        if any(_flat(other).get(key) != value for other in peers):
            short = key.removeprefix("algorithm.").removeprefix("env_args.")
            told.append(_told(value) if key in ("model", "protocol") else f"{short}={_told(value)}")
    return ", ".join([_algorithm(config), *told])


def _algorithm(config: Config) -> str:
    if config["steps"] == 0:
        seats = ", ".join(f"{role}={seat}" for role, seat in config["policy"].items())
        models = config["model"].values() if isinstance(config["model"], Mapping) else [config["model"]]
        return seats or ("trained before" if any(map(is_trained, models)) else "untrained")
    return str(config["name"]).rpartition(":")[2]


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return "+".join(map(str, value.values()))
    return str(value)


def _flat(nested: Config, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        whole = f"{prefix}{key}"
        if isinstance(value, Mapping) and whole != "model":
            flat |= _flat(value, f"{whole}.")
        else:
            flat[whole] = value
    return flat

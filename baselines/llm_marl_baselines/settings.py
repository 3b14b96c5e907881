"""From a command line or a config.yaml to the settings of a run, through jsonargparse."""

from __future__ import annotations

import dataclasses
import json
import re
from argparse import ArgumentError
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import did_you_mean

from .algorithms import ALGORITHMS
from .config import TrainConfig, config_path, packaged_configs
from .specs import absolute


@dataclass(frozen=True)
class Settings:
    """All settings of a run: the algorithm's name, its Config, and everything else."""

    name: str
    algorithm: Any
    train: TrainConfig

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in config.yaml."""
        plain = json.loads(json.dumps({**asdict(self.train), "algorithm": asdict(self.algorithm)}))
        return {"name": self.name, **plain}


def parse(name: str, args: Sequence[str]) -> Settings:
    """Settings from a command line.

    Raises:
        ConfigError: an unknown key, a wrong type, a value out of range.
        UnknownNameError: no such algorithm.
    """
    return _settings_from(name, lambda parser: parser.parse_args(_with_seats(_written_out(_with_config_paths(args)))))


def _settings_from(name: str, read: Callable[[ArgumentParser], Namespace]) -> Settings:
    algorithm = ALGORITHMS.resolve(name)
    if not dataclasses.is_dataclass(getattr(algorithm, "Config", None)):
        raise ConfigError(
            f"{name} is not an algorithm: it has no Config dataclass (see llm_marl_baselines.algorithms)."
        )
    parser = make_parser(name, algorithm.Config)
    try:
        values = read(parser)
        made = parser.instantiate(values)
    except ConfigError:
        raise
    except (ArgumentError, TypeError, ValueError, KeyError, OSError, yaml.YAMLError) as error:
        raise ConfigError(_explained(str(error), parser)) from error
    fields = {f.name: made[f.name] for f in dataclasses.fields(TrainConfig)}
    fields["policy"] = {role: absolute(spec) for role, spec in fields["policy"].items()}
    model = fields["model"]
    fields["model"] = absolute(model) if isinstance(model, str) else {a: absolute(spec) for a, spec in model.items()}
    return Settings(name, made.algorithm, TrainConfig(**fields))


def make_parser(name: str, config: type[Any]) -> ArgumentParser:
    """The parser of one algorithm: every field of TrainConfig, and its own settings under ``algorithm``."""
    parser = ArgumentParser(
        prog=f"llm-marl train {name}",
        description="Train agents. A setting can stand in a YAML file (--config) or on the command line, which wins. "
        "--feedback X is short for --env_args.feedback X; --tracker X adds one to --trackers.",
        exit_on_error=False,
        allow_abbrev=False,
        default_config_files=[str(packaged_configs()[name])] if name in packaged_configs() else [],
    )
    parser.add_argument("--config", action="config", help="YAML file, or the name of a packaged one (llm-marl list)")
    parser.add_class_arguments(TrainConfig)
    parser.add_class_arguments(config, "algorithm")
    return parser


def settings_of(stored: dict[str, Any]) -> Settings:
    """Settings from what config.yaml of a run holds."""
    rest = {key: value for key, value in stored.items() if key != "name"}
    return _settings_from(stored["name"], lambda parser: parser.parse_string(yaml.safe_dump(rest)))


def _with_config_paths(args: Sequence[str]) -> list[str]:
    out = list(args)
    for i, arg in enumerate(out):
        if arg == "--config" and i + 1 < len(out):
            out[i + 1] = str(config_path(out[i + 1]))
        elif arg.startswith("--config="):
            out[i] = f"--config={config_path(arg.partition('=')[2])}"
    return out


# Below these settings stand names that are not ours (agents, keyword arguments): they keep their hyphens.
_FOREIGN = (
    *("env_args", "eval_env_args", "protocol_args", "policy", "model", "sampling.agents"),
    "prompts.chat_template_kwargs",
)


def underscored(arg: str) -> str:
    """``--eval-every 5`` as ``--eval_every``: both spellings of a key are accepted, values stay as they are."""
    if not arg.startswith("--"):
        return arg
    key, equals, value = arg.partition("=")
    name = key[2:].replace("-", "_")
    for ours in _FOREIGN:
        if name.startswith(f"{ours}."):
            name = ours + key[2:][len(ours) :]
    return f"--{name}{equals}{value}"


_SHORT = {"--feedback": "--env_args.feedback", "--tracker": "--trackers+"}


def _written_out(args: Sequence[str]) -> list[str]:
    """``--feedback X`` as ``--env_args.feedback=X``, ``--tracker X`` as ``--trackers+=X``, which may be repeated."""
    out: list[str] = []
    rest = iter(args)
    for arg in rest:
        key, equals, value = arg.partition("=")
        if key in _SHORT:
            value = value if equals else next(rest, "")
            if not value or value.startswith("--"):
                raise ConfigError(f"{key} takes a name or package.module:Thing.")
            arg = f"{_SHORT[key]}={value}"
        out.append(arg)
    return out


def _with_seats(args: Sequence[str]) -> list[str]:
    """``--policy ROLE=RUN`` as ``--policy.ROLE=RUN``, which may be given for several roles."""
    out: list[str] = []
    rest = iter(args)
    for arg in rest:
        key, equals, value = arg.partition("=")
        if key != "--policy":
            out.append(arg)
            continue
        if not equals:
            value = next(rest, "")
        if value.lstrip().startswith("{"):
            out.append(f"--policy={value}")
            continue
        role, equals, seat = value.partition("=")
        if not (role and equals and seat):
            raise ConfigError(
                f"--policy takes ROLE=RUN, ROLE=MODEL or ROLE=frozen:... (all: docs/policies.md), not {value!r}."
            )
        out.append(f"--policy.{role}={seat}")
    return out


def _explained(message: str, parser: ArgumentParser) -> str:
    """jsonargparse's message, with the nearest known key where it complains of an unknown one."""
    known = list(parser.get_defaults().keys())
    if found := re.search(r"unrecognized arguments: --([\w.]+)|[Kk]ey ['\"]([\w.]+)['\"] is not expected", message):
        wrong = found[1] or found[2]
        return f"Unknown setting {wrong!r}.{did_you_mean(wrong, known)} All of them: {parser.prog} --help"
    if found := re.search(r"Option '([\w.]+)' is not accepted", message):
        return f"Unknown setting {found[1]!r}.{did_you_mean(found[1], known)} All of them: {parser.prog} --help"
    if found := re.search(r"Group '([\w.]+)' does not accept option '([\w.]+)'", message):
        wrong = f"{found[1]}.{found[2]}"
        return f"Unknown setting {wrong!r}.{did_you_mean(wrong, known)} All of them: {parser.prog} --help"
    return " ".join(message.split())

"""How those who answer are named, on the command line and in config.yaml: for ``--model`` and for ``--policy ROLE=``.

| name                                 | who answers                                                                 |
|--------------------------------------|-----------------------------------------------------------------------------|
| ``openai:NAME@URL``                  | a model behind an endpoint (:mod:`llm_marl_envs.integrations.openai`)       |
| ``smollm2``, ``tiny``                | models that need no hub (:mod:`llm_marl_baselines.policies.models`)         |
| ``human``                            | a person at the terminal                                                    |
| ``RUN``, ``RUN#OTHER``               | what the run's newest checkpoint holds for this role, or for another        |
| ``ADAPTER``                          | a folder with one adapter, as ``llm-marl export`` and peft write it         |
| ``EXPORT``, ``EXPORT#OTHER``         | what ``llm-marl export --to EXPORT`` wrote for this role, or for another    |
| ``package.module:Thing``             | a Policy, a class of one, or a function (observation, agent) -> str         |
| ``MODEL``                            | a folder with a model, or a name of the hub                                 |
| ``frozen:...``                       | any of these, and it is not trained                                         |

They are told apart in this order, but that a folder with a model comes before ``package.module:Thing``: what is here
wins. Write ``./human`` or ``./tiny`` for a folder of that name. What has a colon, is no folder and has no Python names
on both sides of it (``C:\\models``, ``llama3:8b``) is none of these and refused.

Nothing is loaded here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.integrations.endpoint_spec import FORM, PREFIX, EndpointSpec

FROZEN = "frozen:"
HUMAN = "human"
BUILT_IN = ("smollm2", "tiny")  # each is a module of policies/
# Who they are: files that a run, an adapter and a model cannot be without.
RUN, ADAPTER, MODEL = "config.yaml", "adapter_config.json", "config.json"
_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

Kind = Literal["openai", "human", "run", "adapter", "object", "model"]


@dataclass(frozen=True)
class Spec:
    """A name that has been read.

    Attributes:
        kind: which line of the table it is.
        source: the name of the model or object, the endpoint, or the folder itself.
        role: whose part of a run it is.
        frozen: whether ``frozen:`` stood before it.
    """

    kind: Kind
    source: str
    role: str
    frozen: bool

    @property
    def has_weights(self) -> bool:
        """Whether it is a model of ours, which could be trained."""
        return self.kind in ("run", "adapter", "model")


def read(spec: str, role: str) -> Spec:
    """What a name stands for; see the module's docstring.

    Args:
        spec: the name.
        role: the agent that it is to answer for.

    Raises:
        ConfigError: nothing, or a folder without what it takes.
    """
    frozen, name = spec.startswith(FROZEN), spec.removeprefix(FROZEN)
    if not name:
        raise ConfigError(f"The policy of agent {role!r} is {spec!r}: name a model or a run.")
    kind, source, part = _told_apart(name, spec, role)
    return Spec(kind, source, part, frozen)


def _told_apart(name: str, spec: str, role: str) -> tuple[Kind, str, str]:
    if name.startswith(PREFIX):
        EndpointSpec.parse(name)
        return "openai", name, role
    if name in BUILT_IN:
        return "model", name, role
    if name == HUMAN:
        return "human", name, role
    folder, _, other = name.partition("#")
    path = Path(folder)
    if (path / RUN).is_file():
        return "run", folder, other or role
    if not other and (path / ADAPTER).is_file():
        return "adapter", folder, role
    if not other and (path / MODEL).is_file():
        return "model", folder, role
    within = path / (other or role)
    if (within / ADAPTER).is_file():
        return "adapter", str(within), role
    if (within / MODEL).is_file():
        return "model", str(within), role
    if there := sorted(found.parent.name for found in path.glob(f"*/{ADAPTER}")):
        raise ConfigError(
            f"The policy of agent {role!r} is {spec!r}, and {folder} holds adapters of {', '.join(there)}, but none of "
            f"{other or role!r}. Take another's by {folder}#NAME."
        )
    if other or _is_path(folder):
        raise ConfigError(
            f"The policy of agent {role!r} is {spec!r}, and {folder} holds no run: there is no {RUN} in it, and no "
            f"{ADAPTER} or {MODEL} either. Name the folder of a run, of what llm-marl export wrote, or of a model that "
            "save_pretrained wrote; or a name of the hub."
        )
    if _OBJECT.fullmatch(name):
        return "object", name, role
    if ":" in name:
        raise ConfigError(
            f"The policy of agent {role!r} is {spec!r}, which is no folder here, no package.module:Thing, and no name "
            f"of the hub, since those have no colon. A model behind an endpoint is named {FORM}."
        )
    return "model", name, role


def absolute(spec: str) -> str:
    """The same from any working directory: a run, or what was exported, by its whole path. All else stays."""
    head, name = (FROZEN, spec.removeprefix(FROZEN)) if spec.startswith(FROZEN) else ("", spec)
    folder, mark, other = name.partition("#")
    return f"{head}{Path(folder).resolve()}{mark}{other}" if is_trained(spec) else spec


def is_trained(spec: str) -> bool:
    """Whether it names a run, or what was exported from one: no untrained model."""
    name = spec.removeprefix(FROZEN)
    if name in (HUMAN, *BUILT_IN):
        return False
    folder = Path(name.partition("#")[0])
    return any((folder / file).is_file() for file in (RUN, ADAPTER)) or any(folder.glob(f"*/{ADAPTER}"))


def short(spec: str) -> str:
    """A few letters for the name of a folder: of an endpoint its model, of an object the object, of a path its end."""
    name = spec.removeprefix(FROZEN)
    if name.startswith(PREFIX):
        name = EndpointSpec.parse(name).name
    return re.sub(r"[^\w.-]", "-", Path(name).name.rpartition(":")[2])


def _is_path(name: str) -> bool:
    """Whether this can only be meant as a folder: a slip must not be asked of the hub."""
    path = Path(name)
    if path.is_dir():
        return True
    # The hub's names have one stroke at most; where the folder before it is here, a folder in it was meant.
    return name.startswith((".", "/", "~")) or len(path.parts) > 2 or (len(path.parts) > 1 and path.parent.is_dir())

"""Metrics as ``evaluate.Metric`` classes; they work offline and need the extra ``metrics``.

Of texts, for ``llm-marl eval --metrics`` (the table below; a third party passes ``"package.module:Class"``):

``rouge``      overlap with a reference text
``lengths``    words and characters

Of numbers, for one's own code: ``metrics.scores`` has ``Return``, ``PassAtK`` and ``AccuracyAtK``. ``llm-marl eval``
always reports these, by the same functions (``statistics``), and so needs neither the extra nor the seconds that
importing ``evaluate`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_marl_envs.errors import ConfigError
from llm_marl_envs.tables import Table

Texts = Sequence[Sequence[str]]  # (R, E)

METRICS = Table(
    "metric",
    {
        "rouge": "llm_marl_baselines.metrics.rouge:Rouge",
        "lengths": "llm_marl_baselines.metrics.lengths:Lengths",
    },
)


def load(name: str, has_references: bool) -> Any:
    """A metric of texts, checked before anything is sampled for it.

    Args:
        name: in ``METRICS``, or ``"package.module:Class"`` of an ``evaluate.Metric`` whose ``predictions`` (and
            ``references``, if it has any) are texts.
        has_references: whether there are reference texts.

    Raises:
        UnknownNameError: there is no such metric.
        MissingDependencyError: the extra ``metrics`` is not installed.
        ConfigError: it needs references and there are none, or it is no metric of texts.
    """
    metric = METRICS.resolve(name)()
    wants = set(getattr(metric, "features", ()))
    if "predictions" not in wants or wants - {"predictions", "references"}:
        raise ConfigError(
            f"Metric {name!r} takes {sorted(wants)}; one for --metrics takes predictions, and references at most."
        )
    if "references" in wants and not has_references:
        raise ConfigError(
            f"Metric {name!r} needs a reference text for each row, and there is none: name its field with --reference."
        )
    return metric


def measure_texts(name: str, texts: Mapping[str, Texts], references: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Apply a metric to the texts of each agent, row by row, so that its means have intervals over rows.

    Args:
        name: see :func:`load`, also for the errors. Its ``compute`` must give numbers.
        texts: agent -> (R, E).
        references: (R) the reference text of each row, or None if there are none.

    Returns:
        ``"METRIC/AGENT/NAME"`` -> (R, 1), the metric of all E texts of a row together.
    """
    metric = load(name, references is not None)
    short = name.rpartition(":")[2].rpartition(".")[2]
    found: dict[str, list[float]] = {}
    for agent, rows in texts.items():
        for r, predictions in enumerate(rows):
            given: dict[str, Any] = {"predictions": list(predictions)}
            if "references" in metric.features and references is not None:
                given["references"] = [references[r]] * len(predictions)
            for key, value in metric.compute(**given).items():
                if not isinstance(value, (int, float, np.number)):
                    raise ConfigError(f"Metric {name!r} gives {key}={value!r}; one for --metrics gives numbers.")
                found.setdefault(f"{short}/{agent}/{key}", []).append(float(value))
    return {key: np.array(values)[:, None] for key, values in found.items()}

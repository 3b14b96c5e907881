"""What the metrics share: they keep their data in memory, so that they neither write nor lock files."""

from __future__ import annotations

from typing import Any

from llm_marl_envs.errors import MissingDependencyError

INSTALL = "pip install 'llm-marl-baselines[metrics]'"

try:
    import datasets
    import evaluate
except ModuleNotFoundError as missing:
    raise MissingDependencyError(
        f"Metrics need the module {missing.name!r}, which is not installed. Install it: {INSTALL}"
    ) from missing


class OfflineMetric(evaluate.Metric):
    """An ``evaluate.Metric`` that is used by its class: ``Rouge().compute(predictions=..., references=...)``.

    Subclasses set the class attributes and define ``_compute``.

    Attributes:
        description, citation, inputs: texts of the metric's information.
        columns: name -> type of the columns that ``compute`` takes, in the words of ``datasets`` (``"string"``,
            ``"float64"``), or a list of one for lists of varying length.
    """

    description = ""
    citation = ""
    inputs = ""
    columns: dict[str, Any] = {}

    def __init__(self, *args: Any, keep_in_memory: bool = True, **kwargs: Any):
        super().__init__(*args, keep_in_memory=keep_in_memory, **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.description,
            citation=self.citation,
            inputs_description=self.inputs,
            features=datasets.Features({name: _feature(kind) for name, kind in self.columns.items()}),
        )


def _feature(kind: Any) -> Any:
    if isinstance(kind, list):
        return datasets.Sequence(datasets.Value(kind[0]))
    return datasets.Value(kind)

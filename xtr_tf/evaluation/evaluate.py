"""A whole evaluation: a model, its baselines, some datasets, and a folder with the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xtr_tf.encoder.staging import staged_directory
from xtr_tf.evaluation.datasets import Dataset
from xtr_tf.evaluation.evaluator import Evaluator
from xtr_tf.evaluation.models import is_report, open_model, read_report
from xtr_tf.evaluation.report.content import build_content
from xtr_tf.evaluation.report.writing import write_report
from xtr_tf.evaluation.settings import EvaluationSettings


def evaluate_model(
    model: str | Path,
    datasets: Sequence[Dataset],
    out: str | Path,
    settings: EvaluationSettings | None = None,
    baseline: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Evaluates a model and writes `report.html`, `report.md`, `report.json`, `runs/` and `queries/`.

    Args:
        model: An encoder's directory or an exported model.
        datasets: What to measure it on.
        out: The report's folder; an earlier report there is replaced when the new one is whole.
        settings: The settings.
        baseline: Another model, or the folder of an earlier report, to compare with.
        progress: Told what was done.

    Returns:
        The content of `report.json`.

    Raises:
        InputError: A path is not what it should be; nothing is written then.
    """
    settings = settings or EvaluationSettings()
    out = Path(out)
    started = time.perf_counter()
    replaces = is_report(out) or (out.is_dir() and not any(out.iterdir()))
    with staged_directory(out, overwrite=replaces) as staging:
        tested = open_model(model)
        earlier = Path(baseline) if baseline and is_report(baseline) else None
        opponent = open_model(baseline) if baseline and not earlier else None
        compared: dict[str, str] | None = None
        if opponent:
            compared = {"name": opponent.name, "kind": opponent.kind}
        elif earlier:
            compared = dict(read_report(earlier)["model"])
        evaluator = Evaluator(tested, settings, staging, opponent, earlier, progress)
        for dataset in datasets:
            evaluator.check(dataset)
        results = [evaluator.evaluate(dataset) for dataset in datasets]
        described = {"name": tested.name, "kind": tested.kind}
        content = build_content(results, settings, described, compared, time.perf_counter() - started)
        write_report(staging, content)
    return content

"""A whole evaluation: a model, its baselines, some datasets, and a folder with the report.

Also decides which paths are models and which are earlier reports. Knows nothing about metrics or the layout
of reports.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xtr_tf.collections.dataset import Dataset
from xtr_tf.errors import InputError, require
from xtr_tf.evaluation.evaluator import ENCODER_KIND, EvaluationSettings, Evaluator, Model
from xtr_tf.evaluation.report.content import build_content
from xtr_tf.evaluation.report.html import write_report
from xtr_tf.files import atomic_directory
from xtr_tf.model.folder import MANIFEST_FILE
from xtr_tf.retriever.collection_file import COLLECTION_FILE
from xtr_tf.retriever.versions import versions_in
from xtr_tf.vectors.token_lengths import TokenLengths


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
        model: The directory of an encoder, or an exported model.
        datasets: The datasets to evaluate on.
        out: Folder of the report. An earlier report there is replaced when the new one is complete.
        settings: Settings of the evaluation; the defaults if None.
        baseline: Another model, or the folder of an earlier report, to compare with.
        progress: Called with a line about each finished step.

    Returns:
        The content of `report.json`.

    Raises:
        InputError: A path cannot be used. Nothing is written.

    Example:
        >>> report = evaluate_model("out/models/1", load_datasets(["examples/atlas"]), "out/report")
    """
    settings = settings or EvaluationSettings()
    out = Path(out)
    started = time.perf_counter()
    replaces = is_report(out) or (out.is_dir() and not any(out.iterdir()))
    with atomic_directory(out, overwrite=replaces) as staging:
        tested = open_model(model)
        _check_lengths(tested, settings)
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


def _check_lengths(model: Model, settings: EvaluationSettings) -> None:
    """Checks that lengths of vectors are only given for an encoder, which has no index yet."""
    lengths = TokenLengths(settings.length_penalty, settings.repetition_bonus)
    require(
        lengths.are_one or model.kind == ENCODER_KIND,
        "An exported model has the lengths of its index; leave out `length_penalty` and `repetition_bonus`, "
        "or evaluate its encoder.",
        lengths._asdict(),
    )


REPORT_FILE = "report.json"


def open_model(path: str | Path) -> Model:
    """Opens an encoder's directory, an exported version, the newest of a base directory, or a collection.

    Raises:
        InputError: It is none of them.
    """
    path = Path(path)
    if (path / MANIFEST_FILE).is_file():
        from xtr_tf.evaluation.encoder_model import EncoderModel

        return EncoderModel(path)
    if (path / "saved_model.pb").is_file() or (path / COLLECTION_FILE).is_file() or versions_in(path):
        from xtr_tf.evaluation.exported_model import IndexModel

        return IndexModel(path)
    raise InputError(
        f"A model is the directory of an encoder (with {MANIFEST_FILE}), of an exported version (with "
        f"saved_model.pb), of numbered versions, or of a {COLLECTION_FILE}. "
        f"Received: {str(path)!r}."
    )


def is_report(path: str | Path) -> bool:
    """Whether `path` is the folder of an earlier report."""
    return (Path(path) / REPORT_FILE).is_file()


def read_report(path: str | Path) -> dict[str, Any]:
    """Reads `report.json` of an earlier report.

    Raises:
        InputError: It cannot be read.
    """
    try:
        content: dict[str, Any] = json.loads((Path(path) / REPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"The earlier report cannot be read; give the folder of a finished one. Received: {str(path)!r}."
        ) from error
    return content

"""The origin of a model and how it was judged, in the user's terms.

Reads the metadata store and the model card. Does not import TFX.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx_pipeline.data.sources import SourceFile
from tfx_pipeline.lineage import ArtifactRecord, Lineage
from xtr_tf.retriever.model_card import MODEL_CARD_FILE
from xtr_tf.version import __version__

_SERVING_MODEL = "Format-Serving"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """One blessing, given or refused.

    Attributes:
        judge: Id of the component that decided.
        blessed: Whether the blessing was given.
        reasons: Reasons for the decision.
    """

    judge: str
    blessed: bool
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class DataSource:
    """The input that examples were read from.

    Attributes:
        producer: Id of the component that read it.
        folder: Folder of the input.
        span: Span of the input, or "".
        records: Number of records by split.
        files: Files with sizes and hashes. Empty if the folder is remote.
    """

    producer: str
    folder: str
    span: str
    records: Mapping[str, int]
    files: tuple[SourceFile, ...]


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Origin and judgements of one model.

    Attributes:
        model: Artifact of the model.
        pushed: Directory that it was pushed to, or "".
        withdrawn: Why it was withdrawn, or "".
        data: Examples that it was made from: training data and corpus.
        sources: Files that the examples were read from.
        schemas: Schemas that the data gate compared the examples with.
        base_models: Models that it started from, nearest first.
        versions: Versions of the code and the packages that made it.
        metric: Metric of the figures.
        averages: Average over languages of the model (`xtr`) and of each system it was compared with.
        languages: Figure of the model by language.
        report: Folder of the evaluation's report, or "".
        judgements: Latest judgement of each component that blesses.
    """

    model: ArtifactRecord
    pushed: str
    withdrawn: str
    data: tuple[ArtifactRecord, ...]
    sources: tuple[DataSource, ...]
    schemas: tuple[ArtifactRecord, ...]
    base_models: tuple[ArtifactRecord, ...]
    versions: Mapping[str, str]
    metric: str
    averages: Mapping[str, float]
    languages: Mapping[str, float]
    report: str
    judgements: tuple[Judgement, ...]


def trace(lineage: Lineage, path: str) -> Provenance:
    """Follows a model back to its data and forward to its judgements.

    Args:
        lineage: The metadata store.
        path: Directory of a pushed version, or folder of a model's artifact.

    Returns:
        Data, code, figures and blessings.

    Raises:
        InputError: No run recorded the model.
    """
    found = lineage.find(path)
    model = next(iter(lineage.inputs(found, "model")), found) if found.type == "PushedModel" else found
    sources = lineage.upstream(model)
    # Without the examples that Transform made from them.
    data = tuple(
        source for source in sources if source.type == "Examples" and source.producer.endswith("Gen")
    )
    results = lineage.results(model, "model")
    pushes = [
        record for record in results if record.type == "PushedModel" and record.properties.get("pushed")
    ]
    evaluations = [record for record in results if record.type == "ModelEvaluation"]
    evaluation = evaluations[-1] if evaluations else None
    return Provenance(
        model=model,
        pushed=str(pushes[-1].properties["pushed_destination"]) if pushes else "",
        withdrawn=str(pushes[-1].properties.get("withdrawn", "")) if pushes else "",
        data=data,
        sources=tuple(map(_source, data)),
        schemas=tuple(schema for examples in data for schema in _schemas(lineage, examples)),
        base_models=tuple(
            record for record in sources if record.type == "Model" and record.producer != "Trainer"
        ),
        versions=_versions(model, evaluation),
        metric=str(evaluation.properties.get("metric", "")) if evaluation else "",
        averages=_figures(evaluation, "average_"),
        languages=_figures(evaluation, "language_"),
        report=evaluation.uri if evaluation else "",
        judgements=_judgements(results),
    )


def _source(examples: ArtifactRecord) -> DataSource:
    properties = examples.properties
    files = json.loads(str(properties.get("sources", "[]")))
    return DataSource(
        examples.producer,
        str(properties.get("folder", examples.uri)),
        str(properties.get("span", "")),
        json.loads(str(properties.get("records", "{}"))),
        tuple(SourceFile(**own) for own in files),
    )


def _schemas(lineage: Lineage, examples: ArtifactRecord) -> list[ArtifactRecord]:
    """Returns the schema that the latest gate that accepted these examples compared them with."""
    for kind in ("training", "corpus"):
        for gate in reversed(lineage.results(examples, f"{kind}_examples")):
            return lineage.inputs(gate, f"{kind}_schema")
    return []


def _versions(model: ArtifactRecord, evaluation: ArtifactRecord | None) -> dict[str, str]:
    card = Path(model.uri, _SERVING_MODEL, MODEL_CARD_FILE)
    versions = dict(json.loads(card.read_text(encoding="utf-8"))["versions"]) if card.is_file() else {}
    if "tfx_version" in model.properties:
        versions["tfx"] = str(model.properties["tfx_version"])
    for record in (evaluation, model):
        if record is not None and "code" in record.properties:
            versions["xtr-tf"] = str(record.properties["code"])
    return versions


def _figures(evaluation: ArtifactRecord | None, prefix: str) -> dict[str, float]:
    properties: Mapping[str, Any] = evaluation.properties if evaluation else {}
    return {
        name.removeprefix(prefix): float(value)
        for name, value in sorted(properties.items())
        if name.startswith(prefix)
    }


def _judgements(results: list[ArtifactRecord]) -> tuple[Judgement, ...]:
    latest = {record.type: record for record in results if record.type in ("ModelBlessing", "InfraBlessing")}
    return tuple(
        Judgement(
            record.producer,
            bool(record.properties.get("blessed")),
            tuple(str(record.properties.get("reasons", "")).splitlines()),
        )
        for record in latest.values()
    )


#: Set in the pipeline's image, which has no git checkout.
REVISION_VARIABLE = "XTR_TF_REVISION"


def code_version() -> str:
    """Returns the version of the code, such as `0.4.0 (commit 1a2b3c4)`. Mentions uncommitted changes."""
    revision = os.environ.get(REVISION_VARIABLE) or _revision_of_checkout()
    return f"{__version__} (commit {revision})" if revision else __version__


def _revision_of_checkout() -> str:
    root = Path(__file__).resolve().parents[1]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    command = [git, "-C", str(root), "describe", "--always", "--dirty=, with changes", "--exclude=*"]
    described = subprocess.run(command, capture_output=True, text=True, check=False)
    return described.stdout.strip() if described.returncode == 0 else ""

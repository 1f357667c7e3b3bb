"""Where a model comes from and how it was judged, in the terms of those who ask.

Reads the metadata store and the model's card; imports no TFX.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx_pipeline.lineage import ArtifactRecord, Lineage
from xtr_tf.export.model_card import MODEL_CARD_FILE

_SERVING_MODEL = "Format-Serving"


@dataclasses.dataclass(frozen=True)
class Judgement:
    """One blessing, given or refused.

    Attributes:
        judge: Id of the component.
        blessed: Whether it was given.
        reasons: Why (not).
    """

    judge: str
    blessed: bool
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Answers about one model.

    Attributes:
        model: The artifact.
        pushed: Where it was pushed to, or "".
        data: Examples it was made from: training data and corpus.
        schemas: That they were held to.
        base_models: Models it started from, nearest first.
        versions: Of the code and the packages that made it.
        metric: What the figures are of.
        figures: By what was measured: averages of systems, then languages.
        report: Folder of the evaluation's report, or "".
        judgements: The latest of each judge.
    """

    model: ArtifactRecord
    pushed: str
    data: tuple[ArtifactRecord, ...]
    schemas: tuple[ArtifactRecord, ...]
    base_models: tuple[ArtifactRecord, ...]
    versions: Mapping[str, str]
    metric: str
    figures: Mapping[str, float]
    report: str
    judgements: tuple[Judgement, ...]


def trace(lineage: Lineage, path: str) -> Provenance:
    """Follows a model back to its data and forward to its judgements.

    Args:
        lineage: The store.
        path: A version that was pushed, or the folder of a model's artifact.

    Raises:
        InputError: No run recorded it.
    """
    found = lineage.find(path)
    model = next(iter(lineage.inputs(found, "model")), found) if found.type == "PushedModel" else found
    sources = lineage.upstream(model)
    results = lineage.results(model, "model")
    pushes = [
        record for record in results if record.type == "PushedModel" and record.properties.get("pushed")
    ]
    evaluations = [record for record in results if record.type == "ModelEvaluation"]
    evaluation = evaluations[-1] if evaluations else None
    return Provenance(
        model=model,
        pushed=str(pushes[-1].properties["pushed_destination"]) if pushes else "",
        data=_of_type(sources, "Examples", origin="Gen"),
        schemas=_of_type(sources, "Schema", origin="Schema"),
        base_models=tuple(
            record for record in sources if record.type == "Model" and record.producer != "Trainer"
        ),
        versions=_versions(model, evaluation),
        metric=str(evaluation.properties.get("metric", "")) if evaluation else "",
        figures=_figures(evaluation),
        report=evaluation.uri if evaluation else "",
        judgements=_judgements(results),
    )


def _of_type(sources: list[ArtifactRecord], kind: str, origin: str) -> tuple[ArtifactRecord, ...]:
    """Artifacts of a type from components whose id ends so: not what Transform made of them."""
    return tuple(record for record in sources if record.type == kind and record.producer.endswith(origin))


def _versions(model: ArtifactRecord, evaluation: ArtifactRecord | None) -> dict[str, str]:
    card = Path(model.uri, _SERVING_MODEL, MODEL_CARD_FILE)
    versions = dict(json.loads(card.read_text(encoding="utf-8"))["versions"]) if card.is_file() else {}
    if "tfx_version" in model.properties:
        versions["tfx"] = str(model.properties["tfx_version"])
    for record in (evaluation, model):
        if record is not None and "code" in record.properties:
            versions["xtr-tf"] = str(record.properties["code"])
    return versions


def _figures(evaluation: ArtifactRecord | None) -> dict[str, float]:
    properties: Mapping[str, Any] = evaluation.properties if evaluation else {}
    return {
        name.removeprefix(prefix): float(value)
        for prefix in ("average_", "language_")
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

"""Writes a retriever as a SavedModel, which is verified before it is published."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.files import checksums_of
from xtr_tf.progress import Tracked, track
from xtr_tf.retriever.gate import GateReport, verify_model
from xtr_tf.retriever.model_card import ModelCard
from xtr_tf.retriever.reference_cases import CHECKSUMS_FILE, ReferenceCase, write_reference
from xtr_tf.retriever.reference_requests import default_queries, record_reference
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.signatures import build_signatures
from xtr_tf.retriever.versions import new_version


@dataclasses.dataclass(frozen=True)
class Export:
    """A published version.

    Attributes:
        directory: Directory of the version.
        report: Report of its gate.
    """

    directory: Path
    report: GateReport


def export_retriever(
    retriever: Retriever,
    base: str | os.PathLike[str],
    card: ModelCard,
    version: int | None = None,
    queries: Sequence[str] | None = None,
) -> Export:
    """Writes `<base>/<version>/`, with warm-up requests, reference answers, a model card and checksums.

    The version is published only after a fresh process without Python TensorFlow has loaded it, and has
    returned the answers of the retriever for every signature, up to the rounding measured here.

    Args:
        retriever: The retriever to export.
        base: Base directory of the model. Its name is the name of the model for servers.
        card: The model card of the version.
        version: Version number; one more than the largest in `base` if None.
        queries: Texts for warm-up and reference answers; titles of the corpus if None.

    Returns:
        The directory of the version, and the report of the gate.

    Raises:
        InputError: If the version exists, or if the model did not pass. Nothing is left behind.

    Example:
        >>> export_retriever(assembly.retriever, "out/models", assembly.card).directory
    """
    base = Path(base)
    with track("export", len(_STAGES), "stages") as progress, new_version(base, version) as (staging, final):
        stages = _told(progress)
        next(stages)
        signatures = build_signatures(retriever)
        reference = record_reference(retriever, signatures, list(queries or default_queries(retriever)))
        next(stages)
        tf.saved_model.save(retriever, str(staging), signatures=signatures)
        write_reference(staging, reference)
        warm_up = write_warm_up(staging, base.resolve().name, reference.cases)
        card = dataclasses.replace(card, warm_up=warm_up)
        card.write(staging)
        next(stages)
        report = verify_model(staging)
        if not report.passed:
            raise InputError(
                "The exported model does not give the retriever's answers and was not published: "
                f"{'; '.join(report.problems[:3])}. Received: {str(final)!r}."
            )
        dataclasses.replace(card, memory=report.memory).write(staging)
        (staging / CHECKSUMS_FILE).write_text(checksums_of(staging, CHECKSUMS_FILE), encoding="utf-8")
    return Export(final, report)


_STAGES = ("trace the signatures and record answers", "save", "load in a fresh process and compare")


def _told(progress: Tracked) -> Iterator[None]:
    """Reports each stage when it begins."""
    for number, stage in enumerate(_STAGES):
        progress.update(done=number, note=stage)
        yield


WARM_UP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
WARMED_UP = ("serving_default", "search")


def write_warm_up(directory: Path, model_name: str, cases: Iterable[ReferenceCase]) -> bool:
    """Writes `assets.extra/tf_serving_warmup_requests`.

    Args:
        directory: Directory of the version.
        model_name: Name under which the model will be served.
        cases: Requests. Only those of the signatures in `WARMED_UP` are used. TensorFlow Serving allows
            1,000.

    Returns:
        Whether it was written. Without the package `tensorflow-serving-api` it is not.
    """
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        return False
    file = directory / WARM_UP_FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for case in cases:
            if case.signature not in WARMED_UP:
                continue
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model_name
            request.model_spec.signature_name = case.signature
            for name, value in case.inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())
    return True

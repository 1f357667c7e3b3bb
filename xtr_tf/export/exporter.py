"""Writing a retriever as a SavedModel that was proved before anybody can see it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.export.gate import TOLERANCE, GateReport, verify_model
from xtr_tf.export.model_card import ModelCard
from xtr_tf.export.reference_case import write_cases
from xtr_tf.export.reference_requests import default_queries, record_cases
from xtr_tf.export.version_directory import new_version
from xtr_tf.export.warm_up import write_warm_up
from xtr_tf.retriever import Retriever
from xtr_tf.retriever.signatures import build_signatures


@dataclasses.dataclass(frozen=True)
class Export:
    """A published version.

    Attributes:
        directory: Where it is.
        report: What its gate found.
    """

    directory: Path
    report: GateReport


def export_retriever(
    retriever: Retriever,
    base: str | os.PathLike[str],
    card: ModelCard,
    version: int | None = None,
    queries: Sequence[str] | None = None,
    tolerance: float = TOLERANCE,
) -> Export:
    """Writes `<base>/<version>/`, with warm-up requests, reference answers and a model card.

    The version appears only after a fresh process that never imports Python TensorFlow has loaded it
    and given the retriever's own answers on every signature.

    Args:
        retriever: What to export.
        base: The model's base directory; its name is the model's name for servers.
        card: What the version was made of.
        version: Its number; the one after the largest in `base` if None.
        queries: Texts for warm-up and reference answers; titles of the corpus if None.
        tolerance: How far the scores of the fresh process may be apart.

    Raises:
        InputError: The version exists, or the model did not pass; nothing is left behind.
    """
    base = Path(base)
    signatures = build_signatures(retriever)
    cases = record_cases(retriever, signatures, list(queries or default_queries(retriever)))
    with new_version(base, version) as (staging, final):
        tf.saved_model.save(retriever, str(staging), signatures=signatures)
        write_cases(staging, cases)
        warm_up = write_warm_up(staging, base.resolve().name, cases)
        dataclasses.replace(card, warm_up=warm_up).write(staging)
        report = verify_model(staging, tolerance)
        if not report.passed:
            raise InputError(
                "The exported model does not give the retriever's answers and was not published: "
                f"{'; '.join(report.problems[:3])}. Received: {str(final)!r}."
            )
    return Export(final, report)

"""What the systems of an evaluation are called where people read of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from xtr_tf.evaluation.settings import EvaluationSettings


@dataclasses.dataclass(frozen=True)
class System:
    """A system.

    Attributes:
        key: As in `Evaluator`.
        label: A short name.
        description: What it is, in a phrase.
    """

    key: str
    label: str
    description: str


def describe_systems(
    keys: Iterable[str], settings: EvaluationSettings, model_kind: str, baseline_name: str | None
) -> list[System]:
    """Labels and descriptions of the systems that were measured, in the order of tables.

    Args:
        keys: Those that were measured.
        settings: Of the evaluation.
        model_kind: What kind of model was tested.
        baseline_name: Name of the model compared with, if any.
    """
    known = [
        System("xtr", "XTR", f"the model under f_XTR′, k′ = {settings.k_prime:,} ({model_kind})"),
        System("colbert", "ColBERT scoring", "the same encoder under f_ColBERT, every token compared"),
        System("baseline", baseline_name or "baseline", "the model compared with, under f_XTR′"),
        System(
            "bm25",
            "BM25 by language",
            "by words, or by character n-grams in languages written without spaces",
        ),
        System("bm25_words", "BM25 words", "words, no stemming, k1 = 0.9, b = 0.4"),
        System("bm25_ngrams", "BM25 n-grams", "character n-grams, k1 = 0.9, b = 0.4"),
        System("fusion", "XTR + BM25", "reciprocal rank fusion of XTR and BM25"),
    ]
    measured = set(keys)
    return [system for system in known if system.key in measured]

"""What a model must reach to be blessed. No TFX: a configuration file is checked without importing it."""

from __future__ import annotations

import dataclasses

from xtr_tf.config.schema import require
from xtr_tf.evaluation.measures import JUDGED_METRICS


@dataclasses.dataclass(frozen=True)
class QualitySettings:
    """Thresholds of `RetrievalEvaluator`, and how it measures.

    Figures are in [0, 1]. The average is over languages, each counting the same.

    Attributes:
        metric: What the thresholds are about, one of `xtr_tf.evaluation.measures.JUDGED_METRICS`.
        least_average: The average must reach this.
        least_language: Every language must reach this.
        average_fall: By how much the average may be below the latest blessed model's.
        language_fall: By how much any one language may be below it; a small development set needs
            more room than a large one.
        k_prime: Tokens that each query token retrieves; 0 leaves it to the model, as production does.
        max_queries: Queries measured; 0 means all.
        exact_queries: Queries that are also searched exactly, to show what the index costs.
        bm25: Whether BM25 is measured beside it; a corpus of millions may not fit its memory.
    """

    metric: str = "nDCG@10"
    least_average: float = 0.0
    least_language: float = 0.0
    average_fall: float = 0.0
    language_fall: float = 0.05
    k_prime: int = 0
    max_queries: int = 0
    exact_queries: int = 100
    bm25: bool = True

    def __post_init__(self) -> None:
        known = ", ".join(JUDGED_METRICS)
        require(self.metric in JUDGED_METRICS, f"`metric` must be one of {known}.", self.metric)
        for name in ("least_average", "least_language", "average_fall", "language_fall"):
            require(0 <= getattr(self, name) <= 1, f"`{name}` must be in [0, 1].", getattr(self, name))
        for name in ("k_prime", "max_queries", "exact_queries"):
            require(getattr(self, name) >= 0, f"`{name}` must not be negative.", getattr(self, name))

"""Chooses the best `alpha` for a model and its documents by judged queries, per language and overall.

Knows nothing about how the model was made, or about reports.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xtr_tf.collections.dataset import Dataset
from xtr_tf.evaluation.exported_model import search_all
from xtr_tf.evaluation.metrics import measure
from xtr_tf.runtime.signature import Session

#: The values to try. 1 is BM25 only, without the encoder.
ALPHAS = tuple(round(0.1 * step, 1) for step in range(10))
# Queries in the sample.
_QUERIES = 1_000
_DEPTH = 100

#: A metric by `alpha`.
Means = Mapping[float, float]


def measure_alphas(session: Session, dataset: Dataset, metric: str = "nDCG@10") -> dict[str, Means]:
    """Measures a metric per language and `alpha`.

    Args:
        session: Session of a model with BM25. All parameters except `alpha` are its defaults, but nothing is
            rescored.
        dataset: Judged queries over the documents of the model.
        metric: The metric, over the first 100 documents.

    Returns:
        The metric by language and `alpha`.
    """
    queries = [query for query in dataset.sample(_QUERIES, 0).queries if query.text.strip()]
    languages = np.array([query.language for query in queries])
    ids = [query.id for query in queries]
    means: dict[str, dict[float, float]] = {language: {} for language in sorted(set(languages.tolist()))}
    for alpha in ALPHAS:
        asked = {"alpha": [alpha], "top_k": [_DEPTH], "rescore": [0]}
        run = search_all(session, f"alpha {alpha}", queries, asked)
        values = measure(run, dataset.judgements, ids, [metric])[metric]
        for language, of_alphas in means.items():
            of_alphas[alpha] = float(values[languages == language].mean())
    return dict(means)


def over_languages(means: Mapping[str, Means]) -> Means:
    """Returns the mean over languages, each with the same weight."""
    return {alpha: float(np.mean([own[alpha] for own in means.values()])) for alpha in ALPHAS}


def best_alpha(means: Means) -> float:
    """Returns the `alpha` with the best value; the smallest one if several are equal."""
    return max(means, key=lambda alpha: (means[alpha], -alpha))

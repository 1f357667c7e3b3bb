"""Which `alpha` suits a model and its documents best, by judged queries: for each language, and for all.

Knows nothing of how the model was made or of reports.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xtr_tf.collections.dataset import Dataset
from xtr_tf.evaluation.exported_model import search_all
from xtr_tf.evaluation.metrics import measure
from xtr_tf.runtime.signature import Session

#: What is tried. 1, BM25 only, would make the encoder idle.
ALPHAS = tuple(round(0.1 * step, 1) for step in range(10))
# Queries of the sample that decides.
_QUERIES = 1_000
_DEPTH = 100

#: A metric by `alpha`.
Means = Mapping[float, float]


def measure_alphas(session: Session, dataset: Dataset, metric: str = "nDCG@10") -> dict[str, Means]:
    """A metric of every language, by `alpha`.

    Args:
        session: Of a model with BM25; everything but `alpha` is its own default, save that nothing is
            rescored.
        dataset: Judged queries over its documents.
        metric: Of the first 100 documents.
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
    """The mean of all languages, each of which counts the same."""
    return {alpha: float(np.mean([own[alpha] for own in means.values()])) for alpha in ALPHAS}


def best_alpha(means: Means) -> float:
    """The `alpha` with the best figure; of equal ones the smallest."""
    return max(means, key=lambda alpha: (means[alpha], -alpha))

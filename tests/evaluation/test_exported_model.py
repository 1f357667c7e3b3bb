"""An exported model searched as a server would search it, against exact retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numbers import network_rounding, rounding
from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.evaluation.encoded import CorpusTokens
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.exported_model import ExportedModel

# Queries are encoded in batches of different shapes.
ENCODED = network_rounding(700)


def test_exported_model_finds_what_exact_retrieval_finds(
    atlas: Dataset, atlas_index: CorpusTokens, loaded_encoder: Any, exported_directory: Path
) -> None:
    model = ExportedModel(exported_directory)
    queries = [*atlas.queries[:5], Query("blank", " "), *atlas.queries[5:40]]
    run = model.search("exported", queries, depth=10, k_prime=200, alpha=0.0)
    encoded = loaded_encoder.encode_queries([query.text for query in queries])
    ranking, _ = ExactRetriever(atlas_index).search(encoded, k_prime=200, depth=10)
    assert "blank" not in run
    assert (ranking.ordinals[5] == -1).all()
    for place, query in enumerate(queries):
        if query.id != "blank":
            assert run.scores(query.id) == pytest.approx(
                ranking.scores[place], abs=ENCODED + rounding(32 + 16)
            )
    again = model.encode_queries([query.text for query in queries])
    for one, other in zip(encoded, again, strict=True):
        assert one.vectors.shape == other.vectors.shape
        assert one.vectors == pytest.approx(other.vectors, abs=ENCODED)
    index = model.encode_documents(atlas_index.documents[:20], "atlas")
    assert index.num_tokens <= 20 * 64
    assert index.cut_documents == np.count_nonzero(np.diff(index.offsets) == 64)

"""BM25 over a dataset's corpus, by `bm25s`: the baseline that every report shows.

Knows nothing about judgements or metrics. `xtr_tf.lexical` splits texts into terms.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.run import Run
from xtr_tf.index.term_postings import K1, B
from xtr_tf.lexical.terms import ANALYSERS


class BM25:
    """An index of documents by their terms, in memory.

    Scores are [Lucene's BM25](https://arxiv.org/abs/2407.03618) of title and text together.

    Args:
        documents: The documents to search.
        analyser: One of `ANALYSERS`.
        k1: Saturation of the term frequency.
        b: Strength of the length normalisation.

    Example:
        >>> BM25(documents).search(queries, depth=100).documents("q1")[:3]
    """

    def __init__(
        self, documents: Sequence[Document], analyser: str = "words", k1: float = K1, b: float = B
    ) -> None:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # otherwise it would start with a larger index
        if analyser not in ANALYSERS:
            raise InputError(f"An analyser is one of {', '.join(ANALYSERS)}. Received: {analyser!r}.")
        self.name = f"BM25 ({analyser})"
        self._analyse = ANALYSERS[analyser]
        self._ids = [document.id for document in documents]
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        terms = [self._analyse(document.full_text) for document in documents]
        self._is_empty = not any(terms)  # bm25s cannot index nothing
        if not self._is_empty:
            self._index.index(terms, show_progress=False)

    def search(self, queries: Sequence[Query], depth: int) -> Run:
        """Finds the documents that share a term with each query, at most `depth` of them.

        Args:
            queries: The queries.
            depth: Documents to rank per query.

        Returns:
            The rankings.
        """
        terms = [[] if self._is_empty else self._known(query.text) for query in queries]
        asked = [row for row, known in enumerate(terms) if known]
        depth = min(depth, len(self._ids))
        ordinals = np.full((len(queries), depth), -1)
        scores = np.zeros((len(queries), depth), np.float32)
        if asked:
            results, values = self._index.retrieve(
                [terms[row] for row in asked], k=depth, show_progress=False
            )
            ordinals[asked], scores[asked] = np.where(values > 0, results, -1), values
        return Run.from_arrays(self.name, [query.id for query in queries], self._ids, ordinals, scores)

    def _known(self, text: str) -> list[str]:
        return [term for term in self._analyse(text) if term in self._index.vocab_dict]

"""BM25 of one partition of a collection: of the documents of its token hits, and its best other documents.

A merge of partitions (`xtr_tf/scoring/merging.py`) knows f_XTR' only when it has all hits. So BM25 is
returned next to the hits, and fused later. Knows nothing about tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.retriever.hybrid import allowed_scores
from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.retriever.request import SearchRequest
from xtr_tf.retriever.tables import DocumentTable, joined_filters
from xtr_tf.retriever.token_search import at_least_one_row


class TermCandidates(NamedTuple):
    """Outputs of `search_hybrid_tokens`, in addition to those of the hits.

    Attributes:
        lexical_scores: `[queries, candidates]` float32, BM25 of the documents with a hit; 0 for none.
        other_ordinals: `[queries, top_k]` int32, the best documents without a hit that have a term of the
            query; -1 for none.
        other_scores: `[queries, top_k]` float32, their BM25; 0 for none.
        allowed_documents: `[queries]` int32, number of documents that the filter allows.
    """

    lexical_scores: tf.Tensor
    other_ordinals: tf.Tensor
    other_scores: tf.Tensor
    allowed_documents: tf.Tensor


_ONE_QUERY = TermCandidates(
    tf.TensorSpec([None], tf.float32),
    tf.TensorSpec([None], tf.int32),
    tf.TensorSpec([None], tf.float32),
    tf.TensorSpec([], tf.int32),
)


def find_term_candidates(
    lexical: LexicalPart,
    documents: DocumentTable,
    texts: tf.Tensor,
    ordinals: tf.Tensor,
    request: SearchRequest,
) -> TermCandidates:
    """Looks up BM25 of queries.

    Args:
        lexical: BM25 of the documents.
        documents: The table of documents, which evaluates filters.
        texts: `[queries]` strings.
        ordinals: `[queries, candidates]` int32, the documents with a hit; -1 for none.
        request: `top_k`, `filter` and `languages`.

    Returns:
        BM25 of these and of the best other documents.
    """
    queries = tf.shape(texts)[0]
    count = tf.maximum(queries, 1)
    terms = lexical.terms_of(texts)
    columns = tf.minimum(tf.reduce_max(request.top_k), lexical.num_documents)

    def of_query(row: tuple[tf.Tensor, ...]) -> TermCandidates:
        place, own, filter_, top_k = row
        keys = tf.boolean_mask(terms.keys, terms.queries == place)
        scores, allowed = allowed_scores(lexical.scores(keys), filter_, documents)
        with_hit = tf.boolean_mask(own, own >= 0)
        others = tf.tensor_scatter_nd_update(
            scores, with_hit[:, tf.newaxis], tf.zeros_like(with_hit, tf.float32)
        )
        best = tf.math.top_k(others, columns)
        found = (best.values > 0) & (tf.range(columns) < top_k)
        return TermCandidates(
            tf.where(own >= 0, tf.gather(scores, tf.maximum(own, 0)), 0.0),
            tf.where(found, best.indices, -1),
            tf.where(found, best.values, 0.0),
            allowed,
        )

    filters = joined_filters(request.filter, request.languages)
    found = tf.map_fn(
        of_query,
        (
            tf.range(count, dtype=tf.int64),
            at_least_one_row(ordinals),
            *(tf.broadcast_to(values, [count]) for values in (filters, request.top_k)),
        ),
        fn_output_signature=_ONE_QUERY,
    )
    return TermCandidates(*(part[:queries] for part in found))

"""Token hits as `search_tokens` returns them: `[queries, length, columns]`, and their candidates.

In every output, the first dimension is the queries, so that servers can split the answer of a joined batch.
Knows nothing about how tokens are found.
"""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.retriever.tables import DocumentTable
from xtr_tf.scoring.token_hits import TokenHits
from xtr_tf.scoring.token_owners import DocumentOf

# As in scoring, a slot for every document is faster than sorting up to this many documents per hit.
_DOCUMENTS_PER_HIT = 20


def describe_hits(
    hits: TokenHits, mask: tf.Tensor, document_of: DocumentOf, table: DocumentTable
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `search_tokens`.

    Args:
        hits: `[rows, columns]`, hits of the query tokens where `mask` is true.
        mask: `[queries, length]` bool.
        document_of: Function from token ordinals to the ordinals of their documents.
        table: The table of documents.

    Returns:
        Tensors by output name.
    """
    places = tf.where(mask)
    documents = document_of(hits.token_ids)
    keys = places[:, :1] * table.num_documents + tf.cast(documents, tf.int64)
    queries = tf.shape(mask, tf.int64)[0]
    slots = queries * table.num_documents
    positions, ordinals = tf.cond(
        slots <= _DOCUMENTS_PER_HIT * tf.size(keys, tf.int64),
        lambda: _by_slots(keys, hits.valid, queries, table.num_documents),
        lambda: _by_sorting(keys, hits.valid, queries, table.num_documents),
    )

    parts = {
        "token_ids": (hits.token_ids, 0),
        "scores": (hits.scores, -float("inf")),
        "cutoffs": (hits.cutoffs, 0),
        "documents": (tf.where(hits.valid, positions, -1), -1),
    }

    def of_queries(values: tf.Tensor, fill: float) -> tf.Tensor:
        """Returns `[rows, ...]` as `[queries, length, ...]`."""
        filled = tf.fill(shape_of(values), tf.cast(fill, values.dtype))
        return tf.tensor_scatter_nd_update(filled, places, values)

    def shape_of(values: tf.Tensor) -> tf.Tensor:
        return tf.concat([tf.shape(mask), tf.shape(values)[1:]], axis=0)

    # Queries of the same length, and so a single query, need no padding.
    spread = tf.cond(
        tf.reduce_all(mask),
        lambda: {name: tf.reshape(values, shape_of(values)) for name, (values, _) in parts.items()},
        lambda: {name: of_queries(*part) for name, part in parts.items()},
    )
    return {"mask": mask, **spread, "ordinals": ordinals, **table.look_up(ordinals)}


def _by_slots(
    keys: tf.Tensor, valid: tf.Tensor, queries: tf.Tensor, num_documents: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Numbers the candidates of each query in document order.

    Args:
        keys: `[rows, columns]` int64, query times `num_documents` plus document.
        valid: `[rows, columns]` bool.
        queries: Scalar int64.
        num_documents: Number of documents in the index.

    Returns:
        `[rows, columns]` int32, the number of each hit's document among the candidates of its query. Then the
        candidates, `[queries, most candidates of any query]` int32 ordinals, -1 for none.
    """
    is_candidate = tf.math.unsorted_segment_max(tf.cast(valid, tf.int32), keys, queries * num_documents)
    is_candidate = tf.reshape(tf.maximum(is_candidate, 0), [queries, num_documents])
    numbers = tf.reshape(tf.cumsum(is_candidate, axis=1) - 1, [-1])
    return tf.gather(numbers, keys), _listed(tf.where(is_candidate > 0), queries)


def _by_sorting(
    keys: tf.Tensor, valid: tf.Tensor, queries: tf.Tensor, num_documents: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Does the same as `_by_slots`, without a slot for every document."""
    candidates = tf.sort(tf.unique(tf.boolean_mask(keys, valid)).y)
    starts = tf.searchsorted(candidates, tf.range(queries) * num_documents)
    places = tf.searchsorted(candidates, tf.reshape(keys, [-1]))
    numbers = tf.reshape(places, tf.shape(keys)) - tf.gather(starts, keys // num_documents)
    pairs = tf.stack([candidates // num_documents, candidates % num_documents], axis=1)
    return numbers, _listed(pairs, queries)


def _listed(pairs: tf.Tensor, queries: tf.Tensor) -> tf.Tensor:
    """Returns sorted `[candidates, 2]` queries and ordinals as one row of ordinals per query."""
    ragged = tf.RaggedTensor.from_value_rowids(
        tf.cast(pairs[:, 1], tf.int32), pairs[:, 0], nrows=queries, validate=False
    )
    return ragged.to_tensor(-1)

"""Why a document was found: for each query token, what it matched there, or that nothing was retrieved."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.retriever.empty_batch import at_least_one_row
from xtr_tf.search.token_hits import TokenHits


class Matches(NamedTuple):
    """The best retrieved token of each document for each query token, `[queries, documents, length]`.

    Attributes:
        tokens: int32 token ordinals, -1 where nothing was retrieved.
        scores: float32 similarities; where nothing was retrieved, what was imputed.
        retrieved: bool.
    """

    tokens: tf.Tensor
    scores: tf.Tensor
    retrieved: tf.Tensor


def find_matches(
    hits: TokenHits,
    missing: tf.Tensor,
    query_mask: tf.Tensor,
    document_of_token: tf.Tensor,
    ordinals: tf.Tensor,
) -> Matches:
    """Picks the hits of some documents.

    One query token is looked at after the other, so that memory is bounded by
    documents times hits of a row.

    Args:
        hits: `[rows, columns]`, the valid query tokens of all queries.
        missing: `[rows]` float32, the similarity imputed to what was not retrieved.
        query_mask: `[queries, length]` bool.
        document_of_token: `[tokens]` int32.
        ordinals: `[queries, documents]` int32, -1 for none.

    Returns:
        The matches; zeros and -1 where `query_mask` is false.
    """
    places = tf.where(query_mask)

    def match_row(row: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        token_ids, scores, valid, wanted = row
        owners = tf.gather(document_of_token, token_ids)
        own = (owners[tf.newaxis, :] == wanted[:, tf.newaxis]) & valid[tf.newaxis, :]
        candidates = tf.where(own, scores[tf.newaxis, :], -float("inf"))
        best = tf.argmax(candidates, axis=1)
        return tf.gather(token_ids, best), tf.reduce_max(candidates, axis=1), tf.reduce_any(own, axis=1)

    count = tf.shape(places)[0]
    rows = (hits.token_ids, hits.scores, hits.valid, tf.gather(ordinals, places[:, 0]))
    tokens, scores, retrieved = tf.map_fn(
        match_row,
        tuple(at_least_one_row(part) for part in rows),
        fn_output_signature=(
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.float32),
            tf.TensorSpec([None], tf.bool),
        ),
    )
    tokens, scores, retrieved = tokens[:count], scores[:count], retrieved[:count]
    scores = tf.where(retrieved, scores, missing[:, tf.newaxis])

    def spread(values: tf.Tensor) -> tf.Tensor:
        """`[rows, documents]` to `[queries, documents, length]`."""
        shape = tf.concat([tf.shape(query_mask), tf.shape(ordinals)[1:]], axis=0)
        return tf.transpose(tf.scatter_nd(places, values, tf.cast(shape, tf.int64)), [0, 2, 1])

    is_document = (ordinals >= 0)[:, :, tf.newaxis]
    return Matches(
        # Scattering fills with zeros, so that ordinals are shifted by one on the way.
        tokens=spread(tf.where(retrieved, tokens + 1, 0)) - 1,
        scores=tf.where(is_document, spread(scores), 0.0),
        retrieved=spread(tf.cast(retrieved, tf.int32)) > 0,
    )

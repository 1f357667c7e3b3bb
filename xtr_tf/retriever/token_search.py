"""Searching the tokens of queries that do not all ask for the same k' and leaves.

Searchers take one k' for all rows. Here queries that ask for the same are searched together, so that each
gets what it would get alone, and a batch whose queries all ask for the same, as nearly all do, is one
search.
"""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.index.searchers.base import TokenSearcher
from xtr_tf.retriever.request import alike
from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded


def at_least_one_row(values: tf.Tensor) -> tf.Tensor:
    """Adds a row of zeros to a tensor that has none, to be cut off what comes of it.

    Some search ops refuse a search without queries, and `tf.map_fn` cannot stack nothing.
    """
    shape = tf.shape(values)
    missing = tf.cast(shape[:1] == 0, tf.int32)
    return tf.concat([values, tf.zeros(tf.concat([missing, shape[1:]], axis=0), values.dtype)], axis=0)


def search_tokens(
    searcher: TokenSearcher, rows: tf.Tensor, lengths: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor
) -> TokenHits:
    """Searches the tokens of all queries.

    Args:
        searcher: What to search.
        rows: `[rows, dim]` float32, the query tokens of one query after the other.
        lengths: `[queries]` int32, how many of them each query has.
        k_prime: `[queries]` int32, or one for all of them.
        leaves: The same.

    Returns:
        The hits, `[rows, columns]`.
    """

    def search_all() -> TokenHits:
        return _search_rows(searcher, rows, lengths, k_prime[0], leaves[0])

    if alike(k_prime) and alike(leaves):
        return search_all()
    same = tf.reduce_all(k_prime == k_prime[0]) & tf.reduce_all(leaves == leaves[0])

    # As a call that is not inlined, a branch that is not taken costs one op instead of all of its ops.
    @tf.function(experimental_attributes={"_noinline": True})
    def search_groups() -> tuple[tf.Tensor, ...]:
        return tuple(_search_groups(searcher, rows, lengths, k_prime, leaves))

    return TokenHits(*tf.cond(same, lambda: tuple(search_all()), search_groups))


def _search_rows(
    searcher: TokenSearcher, rows: tf.Tensor, lengths: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor
) -> TokenHits:
    lengths = tf.concat([lengths, 1 - tf.minimum(tf.shape(rows)[:1], 1)], axis=0)
    hits = searcher.search(at_least_one_row(rows), k_prime, leaves, lengths)
    return TokenHits(*(part[: tf.shape(rows)[0]] for part in hits))


def _search_groups(
    searcher: TokenSearcher, rows: tf.Tensor, lengths: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor
) -> TokenHits:
    """Searches the queries that ask for the same together, one such group after the other."""
    k_prime, leaves = (tf.broadcast_to(values, tf.shape(lengths)) for values in (k_prime, leaves))
    settings = tf.cast(k_prime, tf.int64) * (1 << 32) + tf.cast(leaves, tf.int64)
    distinct, group_of_query = tf.unique(settings)
    groups = tf.size(distinct)
    group_of_row = tf.repeat(group_of_query, lengths)

    def search_group(group: tf.Tensor, *found: tf.TensorArray) -> tuple[tf.Tensor | tf.TensorArray, ...]:
        in_group = group_of_query == group
        hits = _search_rows(
            searcher,
            tf.boolean_mask(rows, group_of_row == group),
            tf.boolean_mask(lengths, in_group),
            tf.boolean_mask(k_prime, in_group)[0],
            tf.boolean_mask(leaves, in_group)[0],
        )
        parts = (
            tf.boolean_mask(hits.token_ids, hits.valid),
            tf.boolean_mask(hits.scores, hits.valid),
            tf.math.count_nonzero(hits.valid, axis=1),
        )
        return group + 1, *(array.write(group, part) for array, part in zip(found, parts, strict=True))

    _, *found = tf.while_loop(
        cond=lambda group, *_: group < groups,
        body=search_group,
        loop_vars=(
            tf.constant(0),
            *(
                tf.TensorArray(dtype, groups, infer_shape=False, element_shape=[None])
                for dtype in (tf.int32, tf.float32, tf.int64)
            ),
        ),
        parallel_iterations=1,
    )
    token_ids, scores, counts = (array.concat() for array in found)
    # Rows come group by group; this is where each stands.
    places = tf.math.invert_permutation(tf.argsort(group_of_row, stable=True))

    def in_order(values: tf.Tensor) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_lengths(values, counts, validate=False)
        return tf.gather(ragged, places).to_tensor()

    return hits_from_padded(
        in_order(token_ids), in_order(scores), tf.sequence_mask(tf.gather(counts, places))
    )

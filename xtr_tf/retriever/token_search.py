"""Searches the tokens of queries that may have different k', leaves and filters.

Searchers take one k' for all rows. Here, queries with the same parameters are searched together, so that each
gets the same result as alone. If all queries of a batch have the same parameters, as in nearly all batches,
it is one search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.base import TokenSearcher
from xtr_tf.retriever.request import alike
from xtr_tf.retriever.tracing import traced_once
from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded


def at_least_one_row(values: tf.Tensor) -> tf.Tensor:
    """Adds a row of zeros to a tensor without rows. The caller removes it from the results.

    Some search ops refuse a search without queries, and `tf.map_fn` cannot stack an empty list.

    Args:
        values: `[rows, ...]`.

    Returns:
        `[max(rows, 1), ...]`.
    """
    shape = tf.shape(values)
    missing = tf.cast(shape[:1] == 0, tf.int32)
    return tf.concat([values, tf.zeros(tf.concat([missing, shape[1:]], axis=0), values.dtype)], axis=0)


class TokenRequest(NamedTuple):
    """The parameters of a token search: `[queries]` each, or `[1]` for all queries.

    Attributes:
        k_prime: int32.
        leaves: int32.
        filters: string, an argument of `Allowed`; "" for no filter. None if no query has a filter, which is
            known when the graph is built.
    """

    k_prime: tf.Tensor
    leaves: tf.Tensor
    filters: tf.Tensor | None = None


#: From a scalar string to the tokens that a filter allows.
Allowed = Callable[[tf.Tensor], AllowedTokens]


class TokenSearch:
    """Searches the tokens of all queries.

    Args:
        searcher: The searcher.
        allowed: Evaluates filters.
    """

    def __init__(self, searcher: TokenSearcher, allowed: Allowed) -> None:
        self._searcher = searcher
        self._allowed = allowed
        specs = [
            tf.TensorSpec([None, searcher.dim], tf.float32),
            tf.TensorSpec([None], tf.int32),
            TokenRequest(*(tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.int32, tf.string))),
        ]
        self._search_filtered = traced_once(self._trace_filtered, specs)
        # The call is not inlined, so a branch that is not taken costs one op instead of all of its ops.
        self._search_groups = tf.function(
            self._trace_groups,
            input_signature=specs,
            experimental_attributes={"_noinline": True},
            autograph=False,
        )

    def __call__(self, rows: tf.Tensor, lengths: tf.Tensor, request: TokenRequest) -> TokenHits:
        """Searches the tokens of all queries.

        Args:
            rows: `[rows, dim]` float32, the query tokens, query by query.
            lengths: `[queries]` int32, the number of tokens per query.
            request: The parameters of the search.

        Returns:
            The hits, `[rows, columns]`.

        Raises:
            ValueError: If there are no filters and the parameters may differ between queries.
        """
        k_prime, leaves, filters = request
        if filters is not None:
            return TokenHits(*self._search_filtered(rows, lengths, request))
        if not (alike(k_prime) and alike(leaves)):
            raise ValueError("Queries that differ need filters, if only empty ones.")
        return _search_rows(self._searcher, rows, lengths, k_prime[0], leaves[0])

    def _trace_filtered(
        self, rows: tf.Tensor, lengths: tf.Tensor, request: TokenRequest
    ) -> tuple[tf.Tensor, ...]:
        k_prime, leaves, filters = request
        same = (
            tf.reduce_all(k_prime == k_prime[0])
            & tf.reduce_all(leaves == leaves[0])
            & tf.reduce_all(filters == "")
        )
        return tuple(
            tf.cond(
                same,
                lambda: tuple(_search_rows(self._searcher, rows, lengths, k_prime[0], leaves[0])),
                lambda: self._search_groups(rows, lengths, request),
            )
        )

    def _trace_groups(
        self, rows: tf.Tensor, lengths: tf.Tensor, request: TokenRequest
    ) -> tuple[tf.Tensor, ...]:
        return tuple(_search_groups(self._searcher, rows, lengths, request, self._allowed))


def _search_rows(
    searcher: TokenSearcher,
    rows: tf.Tensor,
    lengths: tf.Tensor,
    k_prime: tf.Tensor,
    leaves: tf.Tensor,
    allowed: Callable[[], AllowedTokens] | None = None,
    is_filtered: tf.Tensor | None = None,
) -> TokenHits:
    """Searches rows with the same parameters, only among the tokens of `allowed` if they are filtered."""
    lengths = tf.concat([lengths, 1 - tf.minimum(tf.shape(rows)[:1], 1)], axis=0)
    padded = at_least_one_row(rows)

    def search() -> tuple[tf.Tensor, ...]:
        return tuple(searcher.search(padded, k_prime, leaves, lengths))

    if allowed is None or is_filtered is None:
        hits = search()
    else:
        hits = tf.cond(
            is_filtered,
            lambda: tuple(searcher.search_allowed(padded, k_prime, leaves, lengths, allowed())),
            search,
        )
    # Fewer ops than `part[:count]`.
    count = tf.shape(rows)[0]
    matrix, first = tf.stack([count, -1]), tf.constant([0, 0])
    token_ids, scores, valid = (tf.slice(part, first, matrix) for part in hits[:3])
    return TokenHits(token_ids, scores, valid, tf.slice(hits[3], first[:1], matrix[:1]))


def _search_groups(
    searcher: TokenSearcher, rows: tf.Tensor, lengths: tf.Tensor, request: TokenRequest, allowed: Allowed
) -> TokenHits:
    """Searches queries with the same parameters together, group by group."""
    k_prime, leaves, filters = (tf.broadcast_to(values, tf.shape(lengths)) for values in request)
    distinct, group_of_query = tf.unique(
        tf.strings.join([tf.strings.as_string(k_prime), tf.strings.as_string(leaves), filters], " ")
    )
    groups = tf.size(distinct)
    group_of_row = tf.repeat(group_of_query, lengths)

    def search_group(group: tf.Tensor, *found: tf.TensorArray) -> tuple[tf.Tensor | tf.TensorArray, ...]:
        in_group = group_of_query == group
        text = tf.boolean_mask(filters, in_group)[0]
        hits = _search_rows(
            searcher,
            tf.boolean_mask(rows, group_of_row == group),
            tf.boolean_mask(lengths, in_group),
            tf.boolean_mask(k_prime, in_group)[0],
            tf.boolean_mask(leaves, in_group)[0],
            lambda: allowed(text),
            text != "",
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
    # Rows are in the order of groups. These are their places.
    places = tf.math.invert_permutation(tf.argsort(group_of_row, stable=True))

    columns = tf.maximum(tf.reduce_max(counts), 1)

    def in_order(values: tf.Tensor) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_lengths(values, counts, validate=False)
        dense = tf.gather(ragged, places).to_tensor()
        return tf.pad(dense, [[0, 0], [0, columns - tf.shape(dense, tf.int64)[1]]])

    return hits_from_padded(
        in_order(token_ids), in_order(scores), tf.sequence_mask(tf.gather(counts, places), columns)
    )

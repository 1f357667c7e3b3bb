"""f_XTR': from retrieved tokens to ranked documents, in stock TensorFlow ops.

    f_XTR'(Q, D) = 1/n * sum_i ( max_j P_ij over the retrieved tokens j of D, or m_i where there is none )

computed as `sum_i m_i + sum over retrieved (i, D) of (max_j P_ij - m_i)`, so that a document costs
only what it retrieved. m_i itself is `TokenHits.missing_similarities`. Knows nothing of text, of
document ids or of how tokens were found. `reference.py` is its NumPy twin.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), "Missing similarity imputation".
"""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.config.retrieval import IMPUTATIONS
from xtr_tf.scoring.ranking import ONE_RANKING, RankedDocuments, rank_all, rank_candidates
from xtr_tf.scoring.token_hits import TokenHits

# Measured: with 14 or 32 query tokens and k' = 1,000 or 40,000, a slot for every document wins up
# to about 20 documents per hit, distinct documents beyond.
_DOCUMENTS_PER_HIT = 20
_QUERIES_AT_ONCE = 4


def flatten_queries(encodings: tf.Tensor, query_mask: tf.Tensor) -> tf.Tensor:
    """Takes the valid query tokens of a batch as rows: what a `TokenSearcher` is given.

    Args:
        encodings: `[queries, length, dim]` float32.
        query_mask: `[queries, length]`, true (or 1) where there is a token.

    Returns:
        `[rows, dim]`, in the order of `tf.where(query_mask)`.
    """
    return tf.boolean_mask(encodings, tf.cast(query_mask, tf.bool))


def score_documents(
    hits: TokenHits,
    query_mask: tf.Tensor,
    document_of_token: tf.Tensor,
    num_documents: int,
    top_k: tf.Tensor,
    imputation: tf.Tensor | str = "top_k_prime",
    constant: tf.Tensor | float = 0.0,
    allowed: tf.Tensor | None = None,
) -> RankedDocuments:
    """Ranks the candidates: the documents that own at least one retrieved token.

    Args:
        hits: Of the rows of `flatten_queries`, which are valid query tokens only.
        query_mask: `[queries, length]`, true (or 1) where there is a token.
        document_of_token: `[tokens]` int32 variable or tensor.
        num_documents: Documents in the index.
        top_k: Scalar int32, at least 1.
        imputation: One of `IMPUTATIONS`, a string scalar that may come with the request.
        constant: m_i under `constant`.
        allowed: `[num_documents]` bool; documents that may be returned, all of them if None.

    Returns:
        Ordinals and scores, `[queries, top_k]`.

    Raises:
        tf.errors.InvalidArgumentError: For an unknown imputation or `top_k` below 1; inside a
            graph when it runs.
    """
    query_mask = tf.cast(query_mask, tf.bool)
    imputation = tf.convert_to_tensor(imputation)
    top_k = tf.convert_to_tensor(top_k, tf.int32)
    checks = [
        tf.debugging.Assert(top_k >= 1, ["`top_k` must be at least 1. Received:", top_k]),
        tf.debugging.Assert(
            tf.reduce_any(imputation == tf.constant(IMPUTATIONS)),
            [f"`imputation` must be one of {', '.join(IMPUTATIONS)}. Received:", imputation],
        ),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        missing = hits.missing_similarities(imputation, constant)
    documents = tf.gather(document_of_token, hits.token_ids)
    scores = hits.scores
    if allowed is not None:
        scores = tf.where(tf.gather(allowed, documents), scores, -float("inf"))

    def rank_query(documents: tf.Tensor, scores: tf.Tensor, missing: tf.Tensor) -> RankedDocuments:
        gains = scores - missing[:, tf.newaxis]
        return _rank_query(documents, gains, missing, num_documents, imputation == "none", top_k)

    def rank_one() -> RankedDocuments:
        ordinals, ranked = rank_query(documents, scores, missing)
        return RankedDocuments(ordinals[tf.newaxis], ranked[tf.newaxis])

    def rank_each() -> RankedDocuments:
        ends = tf.cumsum(tf.reduce_sum(tf.cast(query_mask, tf.int32), axis=1))
        return tf.map_fn(
            lambda bounds: rank_query(*(tensor[slice(*bounds)] for tensor in (documents, scores, missing))),
            (tf.concat([[0], ends[:-1]], axis=0), ends),
            fn_output_signature=ONE_RANKING,
            parallel_iterations=None if tf.executing_eagerly() else _QUERIES_AT_ONCE,
        )

    # The loop costs as much as the scoring of a small query, so the commonest batch goes without.
    return tf.cond(tf.shape(query_mask)[0] == 1, rank_one, rank_each)


def _rank_query(
    documents: tf.Tensor,
    gains: tf.Tensor,
    missing: tf.Tensor,
    num_documents: int,
    only_retrieved: tf.Tensor,
    top_k: tf.Tensor,
) -> RankedDocuments:
    """Ranks the documents of one query.

    Args:
        documents: `[rows, columns]` int32, the documents of the hits.
        gains: `[rows, columns]` float32, what each hit has above m_i; `-inf` counts as no hit.
        missing: `[rows]` float32, m_i.
        num_documents: Documents in the index.
        only_retrieved: Scalar bool, whether the mean is over retrieved similarities only.
        top_k: Scalar int32.

    Returns:
        Ordinals and scores, `[top_k]`.
    """

    def score_all() -> RankedDocuments:
        return rank_all(_score_candidates(documents, num_documents, gains, missing, only_retrieved), top_k)

    def score_distinct() -> RankedDocuments:
        candidates, candidate_of_hit = tf.unique(tf.reshape(documents, [-1]))
        candidate_of_hit = tf.reshape(candidate_of_hit, tf.shape(documents))
        scores = _score_candidates(candidate_of_hit, tf.size(candidates), gains, missing, only_retrieved)
        return rank_candidates(candidates, scores, top_k)

    # A slot for every document is fastest while there are few documents per hit; beyond that, time
    # and memory must not depend on the size of the corpus.
    dense = num_documents <= _DOCUMENTS_PER_HIT * tf.shape(documents)[1]
    return tf.cond(dense, score_all, score_distinct)


def _score_candidates(
    candidate_of_hit: tf.Tensor,
    num_candidates: tf.Tensor | int,
    gains: tf.Tensor,
    missing: tf.Tensor,
    only_retrieved: tf.Tensor,
) -> tf.Tensor:
    """f_XTR' of candidates, `[num_candidates]`, `-inf` where nothing was retrieved.

    Args:
        candidate_of_hit: `[rows, columns]` int32, below `num_candidates`.
        num_candidates: Candidates to score.
        gains: `[rows, columns]`, as for `_rank_query`.
        missing: `[rows]`, as for `_rank_query`.
        only_retrieved: Scalar bool.
    """
    rows = tf.shape(candidate_of_hit)[0]
    segments = tf.range(rows)[:, tf.newaxis] * num_candidates + candidate_of_hit
    best = tf.math.unsorted_segment_max(gains, segments, rows * num_candidates)
    best = tf.reshape(best, [rows, num_candidates])
    # Where there was no hit, `best` is the lowest number there is: finite, so that times 0 is 0.
    retrieved = tf.cast(best > best.dtype.min, best.dtype)
    sums = tf.reduce_sum(missing) + tf.reduce_sum(best * retrieved, axis=0)
    counts = tf.reduce_sum(retrieved, axis=0)
    means = tf.math.divide_no_nan(sums, tf.where(only_retrieved, counts, tf.cast(rows, tf.float32)))
    return tf.where(counts > 0, means, -float("inf"))

"""Ranks documents by f_XTR' and BM25 together. Every candidate of either has both scores.

`xtr_tf.scoring.fusion` defines the fused score. Knows nothing about how tokens were found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.retriever.request import SearchRequest
from xtr_tf.retriever.tables import DocumentTable, joined_filters
from xtr_tf.retriever.token_search import at_least_one_row
from xtr_tf.scoring.fusion import fuse, lexical_scale
from xtr_tf.scoring.maxsim import score_kept_documents
from xtr_tf.scoring.ranking import RankedDocuments, rank_all, sort_keys
from xtr_tf.scoring.token_hits import TokenHits
from xtr_tf.scoring.token_owners import DocumentOf
from xtr_tf.scoring.xtr import QueryHits, map_queries, score_all_documents, score_of_nothing


class HybridDocuments(NamedTuple):
    """The best documents of each query, with both scores: `[queries, top_k]`.

    Attributes:
        ordinals: int32, -1 where fewer documents were found.
        scores: float32, descending, `-inf` where fewer documents were found.
        xtr_scores: float32, f_XTR', or f_ColBERT for rescored documents; `-inf` where fewer documents were
            found.
        lexical_scores: float32, BM25; 0 if `alpha` is 0, and where fewer documents were found.
    """

    ordinals: tf.Tensor
    scores: tf.Tensor
    xtr_scores: tf.Tensor
    lexical_scores: tf.Tensor

    @classmethod
    def without_lexical(cls, ranked: RankedDocuments) -> HybridDocuments:
        """Creates the result from documents that were ranked only by tokens.

        Args:
            ranked: The ranked documents.

        Returns:
            The same documents, with BM25 scores of 0.
        """
        return cls(ranked.ordinals, ranked.scores, ranked.scores, tf.zeros_like(ranked.scores))

    def kept(self, keep: tf.Tensor) -> HybridDocuments:
        """Returns only some of the documents.

        Args:
            keep: `[queries, top_k]` bool, which documents to keep.

        Returns:
            The same shape, without the other documents.
        """
        return HybridDocuments(
            tf.where(keep, self.ordinals, -1),
            tf.where(keep, self.scores, -float("inf")),
            tf.where(keep, self.xtr_scores, -float("inf")),
            tf.where(keep, self.lexical_scores, 0.0),
        )

    def above(self, min_score: tf.Tensor) -> HybridDocuments:
        """Returns only the documents with at least this score.

        Args:
            min_score: `[queries]` float32, or `[1]` for all queries.

        Returns:
            The same shape, without the other documents.
        """
        return self.kept(self.scores >= min_score[:, tf.newaxis])


#: The tensors of a query apart from its hits: its encoding, mask, weights and text.
_QueryTensors = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]
_ONE_QUERY = HybridDocuments(
    tf.TensorSpec([None], tf.int32), *(tf.TensorSpec([None], tf.float32) for _ in range(3))
)


class HybridRanker:
    """Ranks the documents of queries by both scores.

    Args:
        lexical: BM25 of the documents.
        documents: The table of documents, which evaluates filters.
        document_of: Function from token ordinals to the ordinals of their documents.
        dim: Width of a vector.
        vectors_of: Function from token ordinals to their vectors; None if the index does not store them.
        document_offsets: `[documents + 1]` int32, or None if vectors are not stored.
    """

    def __init__(
        self,
        lexical: LexicalPart,
        documents: DocumentTable,
        document_of: DocumentOf,
        dim: int,
        vectors_of: Callable[[tf.Tensor], tf.Tensor] | None,
        document_offsets: tf.Variable | None,
    ) -> None:
        self._lexical = lexical
        self._documents = documents
        self._document_of = document_of
        self._vectors_of = vectors_of
        self._document_offsets = document_offsets
        # One trace for all signatures, which is not inlined. See `TokenSearch`.
        self._rank = tf.function(
            self._trace,
            input_signature=[
                TokenHits(
                    tf.TensorSpec([None, None], tf.int32),
                    tf.TensorSpec([None, None], tf.float32),
                    tf.TensorSpec([None, None], tf.bool),
                    tf.TensorSpec([None], tf.float32),
                ),
                (
                    tf.TensorSpec([None, None, dim], tf.float32),
                    tf.TensorSpec([None, None], tf.bool),
                    tf.TensorSpec([None, None], tf.float32),
                    tf.TensorSpec([None], tf.string),
                ),
                SearchRequest(**SearchRequest.specs()),
            ],
            experimental_attributes={"_noinline": True},
            autograph=False,
        )

    def __call__(self, hits: TokenHits, queries: _QueryTensors, request: SearchRequest) -> HybridDocuments:
        """Ranks the documents of all queries.

        Args:
            hits: Hits of the rows of `flatten_queries`, among the documents that filters allow.
            queries: `[queries, length, dim]` encodings, `[queries, length]` mask and weights, and `[queries]`
                texts.
            request: The parameters of the request.

        Returns:
            The best documents of each query, with both scores.
        """
        without = {
            name: tf.constant([""]) for name in ("languages", "filter") if getattr(request, name) is None
        }
        return HybridDocuments(*self._rank(hits, queries, request._replace(**without)))

    def _trace(self, hits: TokenHits, queries: _QueryTensors, request: SearchRequest) -> HybridDocuments:
        encodings, mask, weights, texts = map(at_least_one_row, queries)
        count = tf.shape(texts)[0]
        terms = self._lexical.terms_of(texts)
        filters = joined_filters(request.filter, request.languages)
        columns = tf.reduce_max(request.top_k)

        def rank_query(hits: QueryHits, *row: tf.Tensor) -> HybridDocuments:
            place, encoding, of_query, weights, filter_, alpha, fusion, rescore = row
            xtr, floor = score_all_documents(hits, self._lexical.num_documents), score_of_nothing(hits)
            keys = tf.boolean_mask(terms.keys, terms.queries == place)
            lexical, documents = allowed_scores(self._lexical.scores(keys), filter_, self._documents)
            scale = lexical_scale(xtr, lexical, floor, documents)
            fused = fuse(xtr, lexical, floor, scale, alpha, fusion)
            ordinals, scores = rank_all(fused, tf.maximum(rescore, columns))
            found = tf.maximum(ordinals, 0)
            of_found = tf.gather(xtr, found)
            of_found = tf.where(of_found > -float("inf"), of_found, floor)
            best = HybridDocuments(ordinals, scores, of_found, tf.gather(lexical, found)).kept(ordinals >= 0)
            vectors_of, offsets = self._vectors_of, self._document_offsets
            if vectors_of is None or offsets is None:
                return best

            def rank_again() -> HybridDocuments:
                # Other queries of the batch may return more documents than this query rescores.
                again = best.kept((ordinals >= 0) & (tf.range(tf.size(ordinals)) < rescore))
                exact = score_kept_documents(
                    again.ordinals,
                    tf.boolean_mask(encoding, of_query),
                    tf.boolean_mask(weights, of_query),
                    vectors_of,
                    offsets,
                )
                # A document without tokens keeps its score.
                exact = tf.where(exact > -float("inf"), exact, again.xtr_scores)
                scores = fuse(exact, again.lexical_scores, floor, scale, alpha, fusion)
                order = tf.math.top_k(sort_keys(scores, again.ordinals), columns).indices
                again = again._replace(scores=scores, xtr_scores=exact)
                return HybridDocuments(*(tf.gather(part, order) for part in again))

            return tf.cond(rescore > 0, rank_again, lambda: best)

        def of_each(values: tf.Tensor) -> tf.Tensor:
            return tf.broadcast_to(values, [count])

        ranked = map_queries(
            rank_query,
            hits,
            mask,
            self._document_of,
            request.imputation,
            request.constant,
            tf.boolean_mask(weights, mask),
            returns=_ONE_QUERY,
            values=(
                tf.range(count, dtype=tf.int64),
                encodings,
                mask,
                weights,
                *map(of_each, (filters, request.alpha, request.fusion, request.rescore)),
            ),
        )
        ranked = HybridDocuments(*(part[: tf.shape(queries[3])[0]] for part in ranked))
        wanted = tf.range(columns) < request.top_k[:, tf.newaxis]
        kept = ranked.kept(wanted & (ranked.ordinals >= 0))
        return kept._replace(
            lexical_scores=tf.where(request.alpha[:, tf.newaxis] > 0, kept.lexical_scores, 0.0)
        )


def allowed_scores(
    scores: tf.Tensor, filter_: tf.Tensor, documents: DocumentTable
) -> tuple[tf.Tensor, tf.Tensor]:
    """Restricts BM25 of one query to the documents that its filter allows.

    Args:
        scores: `[documents]` float32.
        filter_: Scalar string, a value of `joined_filters`.
        documents: The table of documents.

    Returns:
        The scores, with 0 for documents that the filter excludes, and the number of documents that it allows.
    """

    def filtered() -> tuple[tf.Tensor, tf.Tensor]:
        allowed = documents.allowed(filter_)
        return tf.where(allowed, scores, 0.0), tf.math.count_nonzero(allowed, dtype=tf.int32)

    everything = tf.constant(documents.num_documents)
    return tf.cond(filter_ == "", lambda: (scores, everything), filtered)

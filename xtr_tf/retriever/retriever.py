"""The module that is saved: encodes queries, searches their tokens and ranks documents.

Signatures (`signatures.py`, `explain.py`) are thin functions over it. Knows nothing about files, serving, or
the kind of its searcher.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.index.searchers.allowed import AllowedTokens
from xtr_tf.index.searchers.base import TokenSearcher
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.retriever.hybrid import HybridDocuments, HybridRanker
from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.retriever.piece_weights import PieceWeights
from xtr_tf.retriever.request import SearchRequest, require
from xtr_tf.retriever.tables import DocumentTable, TokenTable, joined_filters
from xtr_tf.retriever.token_search import TokenRequest, TokenSearch, at_least_one_row
from xtr_tf.retriever.tracing import traced_once
from xtr_tf.scoring.maxsim import rescore_documents
from xtr_tf.scoring.ranking import RankedDocuments
from xtr_tf.scoring.token_hits import TokenHits
from xtr_tf.scoring.token_owners import TokenOwners
from xtr_tf.scoring.xtr import flatten_queries, of_rows, score_documents
from xtr_tf.vectors.token_lengths import UNIT_LENGTH, TokenLengths


class EncodedTexts(NamedTuple):
    """Token vectors of a batch.

    Attributes:
        encodings: `[batch, length, dim]` float32.
        mask: `[batch, length]` bool, which positions are tokens.
        weights: `[batch, length]` float32, weights of query tokens; equal weights if None.
    """

    encodings: tf.Tensor
    mask: tf.Tensor
    weights: tf.Tensor | None = None


@dataclasses.dataclass(frozen=True)
class Identity:
    """The origin of a retriever, as fingerprints; "" if one is not known.

    Attributes:
        encoder: Fingerprint of the encoder.
        quantizer: Fingerprint of the leaves and codebooks of the index.
        partition: Fingerprint of its documents and their tokens.
    """

    encoder: str = ""
    quantizer: str = ""
    partition: str = ""


class Retriever(tf.Module):
    """Multi-vector retrieval with [XTR](https://arxiv.org/abs/2304.01982) in one module.

    Args:
        encoder: The encoder of queries and documents.
        tokenizer: The tokenizer that the encoder was trained with.
        searcher: The searcher over all document tokens.
        document_of_token: `[tokens]` integers, the document ordinal of each token.
        documents: The table of documents.
        tokens: Pieces and spans of tokens, for explanations; None leaves them out.
        defaults: Default parameters of requests.
        piece_weights: Frequencies of pieces, for weights of query tokens; None for no weights.
        identity: Its origin, for callers that merge the results of several retrievers.
        lexical: BM25 of the documents, for hybrid search; None for no BM25.
        token_lengths: The lengths of the indexed vectors.

    Raises:
        InputError: If the sizes of the parts do not match, or if the defaults need parts that are missing.

    Example:
        >>> retriever = Retriever(encoder, tokenizer, ExactSearcher(vectors), owners, documents)
        >>> search = build_signatures(retriever)["serving_default"]
        >>> search(tf.constant(["highest mountain"]))["document_ids"]
    """

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        searcher: TokenSearcher,
        document_of_token: np.ndarray,
        documents: DocumentTable,
        tokens: TokenTable | None = None,
        defaults: SearchDefaults | None = None,
        piece_weights: PieceWeights | None = None,
        identity: Identity | None = None,
        lexical: LexicalPart | None = None,
        token_lengths: TokenLengths = UNIT_LENGTH,
    ) -> None:
        super().__init__(name="retriever")
        _check_sizes(encoder, searcher, document_of_token, documents, tokens)
        self.tokenizer = tokenizer
        self.searcher = searcher
        self.documents = documents
        self.tokens = tokens
        self.defaults = defaults or SearchDefaults()
        self.piece_weights = piece_weights
        self.identity = identity or Identity()
        if piece_weights is None and self.defaults.token_weights != "none":
            raise InputError(
                "`token_weights` needs an index that has counted the pieces of its documents; build it again "
                f"with `xtr-tf index`. Received: {self.defaults.token_weights!r} for an index without."
            )
        self.lexical = lexical
        if lexical is None and self.defaults.alpha:
            raise InputError(
                "`alpha` needs an index with BM25; build it with `lexical` set to words or ngrams. "
                f"Received: {self.defaults.alpha} for an index without."
            )
        self.token_lengths = token_lengths
        self.dim = searcher.dim
        self.owners = TokenOwners(document_of_token)
        self.keeps_vectors = searcher.vectors_of(tf.zeros([0], tf.int32)) is not None
        self.document_offsets = _document_offsets(document_of_token, documents.num_documents)
        # While a Keras object is saved, it replaces its variables by copies, which the loader of TensorFlow
        # Serving does not find. So its variables are tracked here, and the object itself is only in a
        # closure.
        self.encoder_variables = [variable.value for variable in encoder.variables]
        # One function for all signatures, so that the encoder is in the graph only once, and the tokenizer
        # once per length.
        self._encode = encoder.inference
        texts, lengths = [tf.TensorSpec([None], tf.string)], tokenizer.config
        self._cut_queries = traced_once(lambda own: tokenizer.ragged(own, lengths.query_length), texts)
        self._cut_documents = traced_once(lambda own: tokenizer.cut(own, lengths.document_length), texts)
        document_of, offsets = self.owners.look_up, self.document_offsets
        # Without `self`, which would keep the index in memory until the garbage collector finds the cycle.
        self._search_tokens = TokenSearch(
            searcher, lambda text: AllowedTokens(documents.allowed(text), offsets, document_of)
        )
        self._hybrid_ranker = lexical and HybridRanker(
            lexical,
            documents,
            document_of,
            self.dim,
            searcher.vectors_of if self.keeps_vectors else None,
            self.document_offsets if self.keeps_vectors else None,
        )

    def query_ids(self, queries: tf.Tensor) -> tf.RaggedTensor:
        """Returns the piece ids of queries, truncated to the longest query length.

        Args:
            queries: `[batch]` strings.

        Returns:
            `[batch, (tokens)]` int32.
        """
        return self._cut_queries(queries)

    def document_ids(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the piece ids of documents, truncated to the longest document length.

        Args:
            texts: `[batch]` strings.

        Returns:
            `[batch, (tokens)]` int32, and which texts were truncated, `[batch]` bool.
        """
        return self._cut_documents(texts)

    def encode(self, ids: tf.RaggedTensor) -> EncodedTexts:
        """Encodes piece ids, padded to the longest row of the batch.

        Args:
            ids: `[batch, (tokens)]` int32.

        Returns:
            Vectors and mask.
        """
        return EncodedTexts(*self._encode(ids.to_tensor(self.tokenizer.pad_id)))

    def encode_documents(self, ids: tf.RaggedTensor) -> EncodedTexts:
        """Encodes piece ids of documents into vectors as an index has them, if they are not longer.

        Args:
            ids: `[batch, (tokens)]` int32.

        Returns:
            Vectors of the lengths that the index has them with, and mask.
        """
        encoded = self.encode(ids)
        if self.token_lengths.are_one:
            return encoded
        lengths = self.token_lengths.of_batch(ids.to_tensor(self.tokenizer.pad_id), encoded.mask)
        return encoded._replace(encodings=encoded.encodings * lengths[:, :, tf.newaxis])

    def weigh(self, queries: EncodedTexts, ids: tf.RaggedTensor, token_weights: tf.Tensor) -> EncodedTexts:
        """Returns the queries with the weights of a request.

        Args:
            queries: The result of `encode`.
            ids: The encoded ids.
            token_weights: `[queries]` strings, or `[1]` for all queries.

        Returns:
            The queries with weights.

        Raises:
            tf.errors.InvalidArgumentError: If there are no piece frequencies and a request needs them. Inside
                a graph, it is raised when the graph runs.
        """
        if self.piece_weights is None:
            known = require(
                tf.reduce_all(token_weights == "none"),
                "`token_weights` needs an index that has counted the pieces of its documents. Received:",
                token_weights,
            )
            with tf.control_dependencies([known]):
                return queries._replace(mask=tf.identity(queries.mask))
        idf = self.piece_weights.idf(ids.to_tensor(self.tokenizer.pad_id))
        return queries._replace(weights=tf.where((token_weights == "idf")[:, tf.newaxis], idf, 1.0))

    def find_tokens(self, queries: EncodedTexts, request: SearchRequest) -> TokenHits:
        """Searches the tokens of all queries, each among the documents that its filter allows.

        Args:
            queries: Vectors and mask of the queries.
            request: k', leaves, filter and languages.

        Returns:
            Hits of the rows of `flatten_queries`.
        """
        rows = flatten_queries(queries.encodings, queries.mask)
        lengths = tf.math.count_nonzero(queries.mask, axis=1, dtype=tf.int32)
        filters = None
        if request.filter is not None and request.languages is not None:
            filters = joined_filters(request.filter, request.languages)
        return self._search_tokens(rows, lengths, TokenRequest(request.k_prime, request.leaves, filters))

    def rank(self, hits: TokenHits, queries: EncodedTexts, request: SearchRequest) -> RankedDocuments:
        """Ranks the documents of the hits.

        Args:
            hits: The result of `find_tokens`.
            queries: Vectors and mask of the queries.
            request: Parameters of the ranking.

        Returns:
            Ordinals and scores, best first.
        """
        ranked = score_documents(
            hits,
            at_least_one_row(queries.mask),
            self.owners.look_up,
            self.documents.num_documents,
            request.top_k,
            request.imputation,
            request.constant,
            None if queries.weights is None else flatten_queries(queries.weights, queries.mask),
        )
        return RankedDocuments(*(part[: tf.shape(queries.mask)[0]] for part in ranked))

    def missing_similarities(
        self, hits: TokenHits, queries: EncodedTexts, request: SearchRequest
    ) -> tf.Tensor:
        """Returns m_i of every query token.

        Args:
            hits: The result of `find_tokens`.
            queries: Vectors and mask of the queries.
            request: The imputation and its constant.

        Returns:
            `[rows]` float32.
        """
        return hits.missing_similarities(
            of_rows(request.imputation, queries.mask), of_rows(request.constant, queries.mask)
        )

    def search(
        self, queries: EncodedTexts, request: SearchRequest, texts: tf.Tensor | None = None
    ) -> HybridDocuments:
        """Finds and ranks documents. The best ones are rescored by exact f_ColBERT if the request says so.

        Args:
            queries: The tokens of the queries.
            request: The parameters of the request.
            texts: `[queries]` strings, for BM25. Without them, `alpha` counts as 0.

        Returns:
            Ordinals, best first, with the score and its parts.
        """
        return self.search_with_hits(queries, request, texts)[1]

    def search_with_hits(
        self, queries: EncodedTexts, request: SearchRequest, texts: tf.Tensor | None = None
    ) -> tuple[TokenHits, HybridDocuments]:
        """Finds and ranks documents as `search` does, and also returns the hits.

        Args:
            queries: The tokens of the queries.
            request: The parameters of the request.
            texts: `[queries]` strings, for BM25. Without them, `alpha` counts as 0.

        Returns:
            The token hits, and the result of `search`.
        """
        hits = self.find_tokens(queries, request)
        return hits, self.rank_hits(hits, queries, request, texts)

    def rank_hits(
        self, hits: TokenHits, queries: EncodedTexts, request: SearchRequest, texts: tf.Tensor | None
    ) -> HybridDocuments:
        """Ranks the documents of the hits, and those that BM25 finds.

        Args:
            hits: The result of `find_tokens`.
            queries: Vectors and mask of the queries.
            request: Parameters of the ranking.
            texts: `[queries]` strings for BM25; None if queries were given as vectors.

        Returns:
            Ordinals, best first, with the score and its parts.

        Raises:
            tf.errors.InvalidArgumentError: If the request needs stored vectors or BM25 and the model has
                none. Inside a graph, it is raised when the graph runs.
        """
        request = self._checked(request)

        def by_tokens() -> HybridDocuments:
            return HybridDocuments.without_lexical(self._rank_by_tokens(hits, queries, request))

        ranker = self._hybrid_ranker
        if texts is None or ranker is None:
            return by_tokens().above(request.min_score)
        weights = tf.ones_like(queries.mask, tf.float32) if queries.weights is None else queries.weights
        tensors = (queries.encodings, queries.mask, weights, texts)
        ranked = tf.cond(tf.reduce_any(request.alpha > 0), lambda: ranker(hits, tensors, request), by_tokens)
        return ranked.above(request.min_score)

    def _checked(self, request: SearchRequest) -> SearchRequest:
        """Returns the same request, which fails when it runs if the model does not have what it needs."""
        checks = []
        if not self.keeps_vectors:
            checks.append(
                require(
                    tf.reduce_all(request.rescore == 0),
                    "`rescore` needs an index that keeps vectors: exact, core, or reordered scann. Received:",
                    request.rescore,
                )
            )
        if self._hybrid_ranker is None:
            checks.append(
                require(
                    tf.reduce_all(request.alpha == 0),
                    "`alpha` needs an index with BM25: built with `lexical` words or ngrams. Received:",
                    request.alpha,
                )
            )
        with tf.control_dependencies(checks):
            return request._replace(top_k=tf.identity(request.top_k))

    def _rank_by_tokens(
        self, hits: TokenHits, queries: EncodedTexts, request: SearchRequest
    ) -> RankedDocuments:
        if not self.keeps_vectors:
            return self.rank(hits, queries, request)
        wanted = request.rescore > 0
        candidates = self.rank(
            hits, queries, request._replace(top_k=tf.where(wanted, request.rescore, request.top_k))
        )
        return tf.cond(
            tf.reduce_any(wanted), lambda: self._rescore(candidates, queries, request), lambda: candidates
        )

    def _rescore(
        self, candidates: RankedDocuments, queries: EncodedTexts, request: SearchRequest
    ) -> RankedDocuments:
        wanted = request.rescore[:, tf.newaxis] > 0
        # Queries without rescoring have nothing to look up.
        looked_up = candidates._replace(ordinals=tf.where(wanted, candidates.ordinals, -1))
        rescored = rescore_documents(
            RankedDocuments(*map(at_least_one_row, looked_up)),
            at_least_one_row(queries.encodings),
            at_least_one_row(queries.mask),
            self.searcher.vectors_of,
            self.document_offsets,
            None if queries.weights is None else at_least_one_row(queries.weights),
        )
        chosen = RankedDocuments(
            *(
                tf.where(wanted, new[: tf.shape(queries.mask)[0]], old)
                for new, old in zip(rescored, candidates, strict=True)
            )
        )
        return chosen.cut(request.top_k)


def _document_offsets(document_of_token: np.ndarray, num_documents: int) -> tf.Variable:
    """Returns `[documents + 1]` int32; the tokens of document `i` are `[i]` to `[i + 1]`."""
    offsets = np.searchsorted(document_of_token, np.arange(num_documents + 1))
    return tf.Variable(offsets.astype(np.int32), trainable=False, name="document_offsets")


def _check_sizes(
    encoder: Encoder,
    searcher: TokenSearcher,
    document_of_token: np.ndarray,
    documents: DocumentTable,
    tokens: TokenTable | None,
) -> None:
    if encoder.config.projection_dim != searcher.dim:
        raise InputError(
            "The index was made from vectors of another width than the encoder's; encode the corpus with it. "
            f"Received: index {searcher.dim}, encoder {encoder.config.projection_dim}."
        )
    counts = {"index": searcher.num_tokens, "document_of_token": len(document_of_token)}
    if tokens is not None:
        counts["token table"] = tokens.num_tokens
    if len(set(counts.values())) > 1:
        raise InputError(f"The parts of a retriever must count the same tokens. Received: {counts}.")
    if np.any(document_of_token[1:] < document_of_token[:-1]):
        raise InputError(
            "The tokens of a document must be together, in document order. Received: another order."
        )
    first, last = int(np.min(document_of_token)), int(np.max(document_of_token))
    if first < 0 or last >= documents.num_documents:
        raise InputError(
            f"Tokens must belong to the documents 0 to {documents.num_documents - 1}. "
            f"Received: documents {first} to {last}."
        )

"""The signatures that encode texts and compare them, without the index."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from xtr_tf.retriever.blank import is_blank, require_text
from xtr_tf.retriever.reranking import score_in_chunks, sum_of_max
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.search_request import require


def text_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns `encode_query`, `encode_document` and `score`."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="query")])
    def encode_query(query: tf.Tensor) -> dict[str, tf.Tensor]:
        return retriever.encode(retriever.query_ids(query))._asdict()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="document")])
    def encode_document(document: tf.Tensor) -> dict[str, tf.Tensor]:
        return retriever.encode(retriever.document_ids(document))._asdict()

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="query"),
            tf.TensorSpec([None, None], tf.string, name="documents"),
        ]
    )
    def score(query: tf.Tensor, documents: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": _score(retriever, query, documents)}

    return {"encode_query": encode_query, "encode_document": encode_document, "score": score}


def _score(retriever: Retriever, query: tf.Tensor, documents: tf.Tensor) -> tf.Tensor:
    """f_ColBERT of `[queries]` with each of its `[queries, documents]`; blank documents get `-inf`."""
    queries = retriever.encode(require_text(retriever.query_ids(query), "query"))
    one_row_each = require(
        tf.shape(documents)[0] == tf.shape(query)[0],
        "`documents` must have one row of documents for every query. Received: shape",
        tf.shape(documents),
    )
    with tf.control_dependencies([one_row_each]):
        documents = tf.identity(documents)
    per_query = tf.shape(documents)[1]
    ids = retriever.document_ids(tf.reshape(documents, [-1]))

    def score_chunk(positions: tf.Tensor) -> tf.Tensor:
        encoded = retriever.encode(tf.gather(ids, positions))
        owners = positions // per_query
        return sum_of_max(
            tf.gather(queries.encodings, owners),
            tf.gather(queries.mask, owners),
            encoded.encodings,
            encoded.mask,
        )

    scores = score_in_chunks(tf.size(documents), score_chunk)
    scores = tf.where(is_blank(ids), -float("inf"), scores)
    return tf.reshape(scores, tf.shape(documents))

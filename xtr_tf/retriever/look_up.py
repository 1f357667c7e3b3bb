"""The signature that describes documents and tokens by ordinal, and tells which documents a model has.

Code that merges the token hits of several models (`xtr_tf/scoring/merging.py`) ranks ordinals, and looks up
only the best ones here. Knows nothing about searching.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.snippets import cut_snippets


def look_up_signature(retriever: Retriever) -> dict[str, Any]:
    """Returns the signature `look_up`, by name.

    Args:
        retriever: The retriever.

    Returns:
        A `tf.function` by name.
    """
    identity = dataclasses.asdict(retriever.identity)
    no_scores = tf.constant([[[0.0]]])

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name="documents"),
            tf.TensorSpec([None, None, None], tf.int32, name="tokens"),
            tf.TensorSpec([None, None, None], tf.float32, name="scores"),
        ],
        autograph=False,
    )
    def look_up(
        documents: tf.Tensor, tokens: tf.Tensor, scores: tf.Tensor = no_scores
    ) -> dict[str, tf.Tensor]:
        unknown = tf.fill(tf.shape(tokens), -1)
        pieces, starts, limits = (
            retriever.tokens.look_up(tokens) if retriever.tokens else (unknown, unknown, unknown)
        )
        rows = tf.shape(documents)[:1]
        named, texts = retriever.documents.look_up(documents), retriever.documents.look_up_texts(documents)
        snippets = {}
        if retriever.documents.snippets:
            weights = tf.broadcast_to(scores, tf.shape(tokens))
            snippets["snippets"] = cut_snippets(texts, named["titles"], starts, limits, weights)
        return {
            **named,
            **retriever.documents.look_up_contents(documents),
            "texts": texts,
            **snippets,
            "document_pieces": retriever.tokenizer.pieces(pieces),
            "starts": starts,
            "limits": limits,
            **{name: tf.fill(rows, fingerprint) for name, fingerprint in identity.items()},
        }

    return {"look_up": look_up}

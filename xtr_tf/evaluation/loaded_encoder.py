"""The encoder of a directory, as evaluations use it: whole corpora and queries into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from xtr_tf.corpus.document import Document
from xtr_tf.corpus.document_encoder import DocumentEncoder
from xtr_tf.corpus.encoding_config import EncodingConfig
from xtr_tf.encoder import Encoder, load_encoder
from xtr_tf.evaluation.token_encoder import EncodedQuery
from xtr_tf.evaluation.token_index import TokenIndex, check_size
from xtr_tf.tokenizer import Tokenizer

_DOCUMENTS_AT_ONCE = 512
_QUERIES_AT_ONCE = 256


class LoadedEncoder:
    """Encodes with `Encoder` and `Tokenizer`, documents as `xtr-tf encode` does.

    Long documents are split into passages, so none is cut; vectors are rounded to float16 as in an index.

    Args:
        encoder: The encoder.
        tokenizer: Its tokenizer.
        config: How documents are split and pruned; by the command's defaults if None.
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, config: EncodingConfig | None = None) -> None:
        self._tokenizer = tokenizer
        self._documents = DocumentEncoder(encoder, tokenizer, config or EncodingConfig())

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def encode(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
            ids = tokenizer.ragged(texts, tokenizer.config.query_length)
            return ids, encoder(ids.to_tensor(tokenizer.pad_id))

        self._encode = encode

    @classmethod
    def load(cls, directory: str | Path) -> LoadedEncoder:
        """Loads the encoder of a directory."""
        return cls(*load_encoder(directory))

    def encode_queries(self, texts: Sequence[str]) -> list[EncodedQuery]:
        """The tokens of each query, in order."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        encoded: dict[int, EncodedQuery] = {}
        for start in range(0, len(order), _QUERIES_AT_ONCE):
            places = order[start : start + _QUERIES_AT_ONCE]
            ids, vectors = self._encode(tf.constant([texts[place].encode() for place in places]))
            words = ids.with_values(self._tokenizer.pieces(ids.values)).to_list()
            for row, (place, pieces) in enumerate(zip(places, ids.to_list(), strict=True)):
                length = len(pieces) if len(pieces) > 1 else 0
                encoded[place] = EncodedQuery(
                    vectors[row, :length].numpy(),
                    np.array(pieces[:length], np.int32),
                    tuple(word.decode() for word in words[row][:length]),
                )
        return [encoded[place] for place in range(len(texts))]

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> TokenIndex:
        """The tokens of a corpus, in order."""
        encoded = []
        tokens = 0
        for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
            group = documents[start : start + _DOCUMENTS_AT_ONCE]
            encoded += self._documents.encode([document.full_text for document in group])
            tokens += sum(len(document.pieces) for document in encoded[start:])
            check_size(tokens, dataset)
        return TokenIndex(
            documents,
            np.concatenate([document.vectors for document in encoded]).astype(np.float32),
            np.cumsum([0, *(len(document.pieces) for document in encoded)]),
            np.concatenate([document.pieces for document in encoded]),
            np.concatenate([document.spans for document in encoded]),
        )

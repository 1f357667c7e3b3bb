"""From documents to token vectors with a loaded model: split, batch, encode, prune.

This is the only place where a corpus meets the encoder. Every runner uses it. Knows nothing about files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import tensorflow as tf

from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, read_manifest
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.progress import tracked
from xtr_tf.vectors.passages import Passage, PassageSplitter, Pruning, batches
from xtr_tf.vectors.shard import EncodedDocument
from xtr_tf.vectors.token_lengths import TokenLengths


class DocumentEncoder:
    """Encodes documents, each as one or more passages.

    The vectors of a document depend on the other documents of a call only by rounding, because they share
    batches. Two calls with the same documents return the same bits.

    Args:
        encoder: The encoder.
        tokenizer: Its tokenizer.
        config: How to split, prune and store. `compute_dtype` is up to the caller, who has loaded the
            encoder.

    Raises:
        InputError: If a piece to leave out is not in the vocabulary.

    Example:
        >>> encoder = DocumentEncoder(*load_encoder("model"), EncodingConfig())
        >>> [document] = encoder.encode(["Nile The Nile flows north."])
        >>> document.vectors.shape
        (9, 128)
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, config: EncodingConfig) -> None:
        self.config = config.resolved(tokenizer.config.document_length)
        self._dtype = np.float16 if config.dtype == "float16" else ml_dtypes.bfloat16
        self._splitter = PassageSplitter(tokenizer, self.config.passage_length, self.config.overlap or 0)
        self._pruning = Pruning(self.config, tokenizer)
        self._lengths = TokenLengths(config.length_penalty, config.repetition_bonus)
        self._end_id = tokenizer.eos_id

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
        def encode_with_norms(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            projected = encoder.projection(encoder.hidden_states(ids))
            vectors, norms = tf.linalg.normalize(tf.cast(projected, tf.float32), axis=-1)
            return vectors, norms[:, :, 0]

        # Returns vectors, and norms if pruning needs them.
        self._encode_ids = encode_with_norms if self._pruning.needs_norms else encoder.inference

    @classmethod
    def load(cls, model: str | Path, config: EncodingConfig) -> DocumentEncoder:
        """Loads the encoder in a directory.

        Args:
            model: The directory of the encoder.
            config: How to split, store and prune.

        Returns:
            The document encoder.
        """
        return cls(*load_encoder(model, config.compute_dtype or None), config)

    def encode(self, texts: Sequence[str]) -> list[EncodedDocument]:
        """Encodes documents.

        Args:
            texts: The full texts of the documents.

        Returns:
            The encoded documents, in the same order.
        """
        passages = list(self._splitter.split(texts))
        encoded = self._encode_passages(passages)
        owners = np.searchsorted([passage.document for passage in passages], np.arange(len(texts) + 1))
        return [
            self._join(passages[first:last], encoded[first:last])
            for first, last in itertools.pairwise(owners)
        ]

    def _encode_passages(self, passages: Sequence[Passage]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns the stored vectors of each passage, and which of its tokens are kept."""
        encoded: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * len(passages)
        counts = [len(passage.ids) for passage in passages]
        groups = list(batches(counts, self.config.passage_length, self.config.batch_tokens))
        for length, members in tracked(groups, "shard", len(groups), "batches"):
            ids = np.zeros((len(members), length), np.int32)
            for row, member in enumerate(members):
                ids[row, : counts[member]] = passages[member].ids
            vectors, norms = (output.numpy() for output in self._encode_ids(tf.constant(ids)))
            for row, member in enumerate(members):
                tokens = slice(0, counts[member])
                kept = self._pruning.keep(
                    passages[member].ids, norms[row, tokens] if self._pruning.needs_norms else None
                )
                encoded[member] = (vectors[row, tokens].astype(self._dtype), kept)
        return encoded

    def _join(
        self, passages: Sequence[Passage], encoded: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> EncodedDocument:
        """Joins the passages of one document, with each token once and without the pruned ones."""
        vectors, masks = zip(*encoded, strict=True)
        own = np.concatenate([passage.kept for passage in passages])
        kept = own & np.concatenate(masks)
        if self.config.max_tokens:
            kept &= np.cumsum(kept) <= self.config.max_tokens
        owners = np.repeat(np.arange(len(passages)), [len(mask) for mask in masks])
        pieces = np.concatenate([passage.ids for passage in passages])[kept]
        return EncodedDocument(
            vectors=self._stored(np.concatenate(vectors)[kept], pieces),
            pieces=pieces,
            spans=np.concatenate([passage.spans for passage in passages])[kept],
            positions=np.concatenate([passage.positions for passage in passages])[kept],
            passage_tokens=np.bincount(owners[kept], minlength=len(passages)).astype(np.int32),
            pruned=int(np.count_nonzero(own & ~kept)),
        )

    def _stored(self, vectors: np.ndarray, pieces: np.ndarray) -> np.ndarray:
        """Returns the vectors of one document with the lengths that they are stored with."""
        if self._lengths.are_one:
            return vectors
        lengths = self._lengths.of(pieces, self._end_id)[:, np.newaxis]
        return (vectors.astype(np.float32) * lengths).astype(self._dtype)


class TokenCounter:
    """Counts the tokens that a `DocumentEncoder` would keep, without an encoder.

    Args:
        tokenizer: The tokenizer.
        config: How to split and prune. `min_norm`, which needs an encoder, must be 0.

    Example:
        >>> TokenCounter.load("model", EncodingConfig()).count(["Nile The Nile flows north."])
        array([9])
    """

    def __init__(self, tokenizer: Tokenizer, config: EncodingConfig) -> None:
        self.config = config.resolved(tokenizer.config.document_length)
        self._splitter = PassageSplitter(tokenizer, self.config.passage_length, self.config.overlap or 0)
        self._pruning = Pruning(self.config, tokenizer)

    @classmethod
    def load(cls, model: str | Path, config: EncodingConfig) -> TokenCounter:
        """Loads the tokenizer in the directory of an encoder.

        Args:
            model: The directory of the encoder.
            config: How to split and prune.

        Returns:
            The counter.
        """
        return cls(Tokenizer(read_manifest(Path(model)).tokenizer), config)

    def count(self, texts: Sequence[str]) -> np.ndarray:
        """Counts the tokens of documents.

        Args:
            texts: The full texts of the documents.

        Returns:
            `[documents]` int64.
        """
        counts = np.zeros(len(texts), np.int64)
        for passage in self._splitter.split(texts):
            kept = passage.kept & self._pruning.keep(passage.ids, None)
            counts[passage.document] += np.count_nonzero(kept)
        return np.minimum(counts, self.config.max_tokens) if self.config.max_tokens else counts

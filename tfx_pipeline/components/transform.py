"""The module file of Transform: converts training examples of texts to token ids and fingerprints.

It applies the tokenizer graph of the exported model, so that training and serving cannot disagree.
`xtr_tf.training.data.tokenized` describes the output.
"""

from __future__ import annotations

import posixpath
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from xtr_tf.config.loading import from_mapping
from xtr_tf.config.model import TokenizerConfig, TokenizerSettings
from xtr_tf.model.folder import MANIFEST_FILE, parse_manifest
from xtr_tf.model.tokenizer import Tokenizer

Features = dict[str, Any]


def preprocessing_fn(inputs: dict[str, tf.SparseTensor], custom_config: dict[str, Any]) -> Features:
    """Tokenizes a batch of training examples.

    Args:
        inputs: Features of `xtr_tf.training.data.tfrecords`, `[batch, (values)]` each.
        custom_config: Settings for `tokenizer_config`.

    Returns:
        Features of `xtr_tf.training.data.tokenized`.
    """
    config = tokenizer_config(custom_config)
    tokenizer = tft.make_and_track_object(lambda: _tokenizer(config), name="tokenizer")
    query = _single(inputs["query"])
    query_keys = _fingerprints("query", tf.strings.lower(tf.strings.strip(query), encoding="utf-8"))
    return {
        "id": _single(inputs["id"]),
        "language": _single(inputs["language"]),
        "query_tokens": tf.cast(tokenizer.tokenize_queries(query), tf.int64),
        **_documents(tokenizer, inputs, "positive", query_keys),
        **_documents(tokenizer, inputs, "negative", tf.zeros_like(query_keys)),
    }


def tokenizer_config(settings: dict[str, Any]) -> TokenizerConfig:
    """Returns the tokenizer settings of a run. Settings that it leaves open come from the initial encoder.

    Args:
        settings: Mapping with `tokenizer` (the mapping of a run's `TokenizerSettings`) and `initial_encoder`
            (a directory or "").

    Returns:
        The tokenizer configuration.
    """
    said = from_mapping(TokenizerSettings, settings["tokenizer"])
    if not settings["initial_encoder"]:
        return said.applied_to(TokenizerConfig())
    path = posixpath.join(settings["initial_encoder"], MANIFEST_FILE)
    with tf.io.gfile.GFile(path) as file:
        return said.applied_to(parse_manifest(file.read(), path).tokenizer)


def _tokenizer(config: TokenizerConfig) -> Tokenizer:
    with tf.io.gfile.GFile(config.model, "rb") as file:
        return Tokenizer(config, file.read())


def _documents(
    tokenizer: Tokenizer, inputs: dict[str, tf.SparseTensor], kind: str, query_keys: tf.Tensor
) -> Features:
    """Returns the features of positives or negatives. The documents of a row follow each other."""
    texts = tf.RaggedTensor.from_sparse(inputs[f"{kind}_texts"])
    titles = tf.RaggedTensor.from_sparse(inputs[f"{kind}_titles"]).values
    ids = tf.RaggedTensor.from_sparse(inputs[f"{kind}_ids"]).values
    content = tokenizer.document_text(titles, texts.values)
    keys = [
        tf.where(tf.equal(ids, "")[:, None], 0, _fingerprints("id", ids)),
        _fingerprints("content", content),
        tf.gather(query_keys, texts.value_rowids()),
    ]
    return {
        f"{kind}_tokens": _rows(texts, tokenizer.tokenize_documents(content)),
        f"{kind}_keys": _rows(texts, tf.concat(keys, axis=1)),
        f"{kind}_scores": inputs[f"{kind}_scores"],
    }


def _rows(documents: tf.RaggedTensor, numbers: tf.Tensor) -> tf.SparseTensor:
    """Converts `[documents, width]` numbers to `[batch, (numbers)]` int64."""
    splits = documents.row_splits * tf.cast(tf.shape(numbers)[1], tf.int64)
    flat = tf.cast(tf.reshape(numbers, [-1]), tf.int64)
    return tf.RaggedTensor.from_row_splits(flat, splits, validate=False).to_sparse()


def _fingerprints(kind: str, texts: tf.Tensor) -> tf.Tensor:
    """Converts `[texts]` strings to `[texts, 2]` int32, which are equal if and only if the texts are."""
    marked = tf.strings.join([tf.constant(f"{kind}\0"), texts])
    return tf.bitcast(tf.reshape(tf.fingerprint(marked), [-1, 2, 4]), tf.int32)


def _single(values: tf.SparseTensor) -> tf.Tensor:
    """Returns a feature with one value per row as `[batch]`."""
    return tf.sparse.to_dense(values)[:, 0]

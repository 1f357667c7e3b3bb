"""Writes the records of `tokenized.py` from texts, for devices whose hosts do not run Python.

Knows texts and the tokenizer. `draws.py` and `Sampler` ensure that the batches are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from xtr_tf.config.training import SourceConfig
from xtr_tf.files import atomic_directory
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.progress import track
from xtr_tf.training.data.sampling import PlacedDocument, TrainingData, WholeExample

_EXAMPLES_AT_ONCE = 256
_FILE = "examples.tfrecord"


def write_tokenized(data: TrainingData, tokenizer: Tokenizer, folder: Path) -> SourceConfig:
    """Writes all examples of a run's texts, in their order.

    With the same seed and temperature, `TokenizedData` of the result has the batches of `data`.

    Args:
        data: Examples as texts.
        tokenizer: Tokenizer, which also defines the lengths.
        folder: Folder to write. An existing one is replaced.

    Returns:
        The set that was written.
    """
    with (
        atomic_directory(folder, overwrite=True) as staging,
        tf.io.TFRecordWriter(str(staging / _FILE)) as writer,
        track("tokenize the training data", len(data), "examples") as tracked,
    ):
        for first in range(0, len(data), _EXAMPLES_AT_ONCE):
            numbers = range(first, min(first + _EXAMPLES_AT_ONCE, len(data)))
            for record in _records([data.whole_example(number) for number in numbers], tokenizer):
                writer.write(record)
            tracked.update(done=numbers.stop)
    return SourceConfig(str(folder / _FILE), "tokenized")


def _records(examples: Sequence[WholeExample], tokenizer: Tokenizer) -> Iterator[bytes]:
    queries = tokenizer.tokenize_queries(tf.constant([example.query for example in examples])).numpy()
    documents = [document for example in examples for document in (*example.positives, *example.negatives)]
    ids = iter(tokenizer.tokenize_documents(tf.constant([own.content for own in documents])).numpy())
    for query_ids, example in zip(queries, examples, strict=True):
        features = {
            "id": _text(example.id),
            "language": _text(example.language),
            "query_tokens": _numbers(query_ids),
            **_features("positive", example.positives, [next(ids) for _ in example.positives]),
            **_features("negative", example.negatives, [next(ids) for _ in example.negatives]),
        }
        yield tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _features(
    kind: str, documents: Sequence[PlacedDocument], ids: Sequence[np.ndarray]
) -> dict[str, tf.train.Feature]:
    scores = tf.train.FloatList(value=[document.teacher_score for document in documents])
    return {
        f"{kind}_tokens": _numbers(*ids),
        f"{kind}_keys": _numbers(*(document.keys for document in documents)),
        f"{kind}_scores": tf.train.Feature(float_list=scores),
    }


def _numbers(*parts: np.ndarray) -> tf.train.Feature:
    values = np.concatenate([part.ravel() for part in parts]) if parts else []
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _text(text: str) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))

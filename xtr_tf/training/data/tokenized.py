"""Training examples that were tokenized beforehand: hosts of accelerators read ids, and never text.

A record is a `tf.train.Example` with the bytes features `id` and `language`, and the int64 feature
`query_tokens` of `query_length` ids. Positives have, document after document, `positive_tokens`
(`document_length` ids each), `positive_keys` (6 int32 each, see `TextBatch`) and the float feature
`positive_scores`. Negatives have the same with `negative_`. The TFX pipeline's Transform and
`tokenizing.py` write them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.batches import Batch
from xtr_tf.training.data.draws import draw
from xtr_tf.training.data.sampling import sampler_of
from xtr_tf.training.data.sources import find_paths
from xtr_tf.training.data.tfrecords import TFRecordFile

_RECORDS_AT_ONCE = 256
_FEATURES = {"language", "query_tokens", "positive_tokens", "positive_keys", "positive_scores"}

_NUMBERS, _SCORES = (
    tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) for dtype in (tf.int64, tf.float32)
)
_SPECIFICATION = {
    "query_tokens": _NUMBERS,
    **{f"{kind}_{name}": _NUMBERS for kind in ("positive", "negative") for name in ("tokens", "keys")},
    **{f"{kind}_scores": _SCORES for kind in ("positive", "negative")},
}


class TokenizedDocuments(NamedTuple):
    """Positives or negatives of an example: ids `[D, m]`, keys `[D, 3, 2]`, scores `[D]`."""

    ids: np.ndarray
    keys: np.ndarray
    scores: np.ndarray


class TokenizedExample(NamedTuple):
    """An example with all of its documents."""

    id: str
    language: str
    query_ids: np.ndarray
    positives: TokenizedDocuments
    negatives: TokenizedDocuments


def read_tokenized(source: SourceConfig, tokenizer: TokenizerConfig) -> Iterator[TokenizedExample]:
    """Reads the examples of a tokenized set, one after the other.

    Args:
        source: A set of the format `tokenized`.
        tokenizer: Settings with the lengths that the examples must have.

    Yields:
        The examples.

    Raises:
        InputError: The set has records of another kind, or of other lengths.
    """
    for path in find_paths(source.path):
        file = TFRecordFile(path, BadRecords(limit=0))
        for number in range(len(file)):
            features = _parse_first(file[number], path)
            _check_lengths(features, tokenizer)
            yield TokenizedExample(
                _text(features, "id"),
                _text(features, "language"),
                np.array(features["query_tokens"].int64_list.value, np.int32),
                _documents(features, "positive", tokenizer.document_length),
                _documents(features, "negative", tokenizer.document_length),
            )


class TokenizedData:
    """The tokenized training sets of a run, in the order in which `TrainingData` provides texts.

    TensorFlow operations read, parse and sample the examples, so that hosts without our Python code can feed
    their accelerators. All ids are kept in memory, without padding. During parsing, which happens once, the
    records and the padded ids, with eight bytes per id, are in memory as well.

    Args:
        config: Training sets, all of the format `tokenized`, and how they are mixed.
        tokenizer: Settings with the lengths of the examples.
        seed: Seed of the shuffling and of the choice of positives and negatives.
        batch_size: Examples per update, which share a language if `config` says so.

    Raises:
        InputError: There are no examples, or they are records of another kind or of other lengths.
    """

    def __init__(
        self, config: DataConfig, tokenizer: TokenizerConfig, seed: int, batch_size: int = 1
    ) -> None:
        self._tokenizer = tokenizer
        self._seed = seed
        self.hard_negatives = config.hard_negatives
        self._paths = _files(config)
        languages: list[np.ndarray] = []
        self.max_positives = 1
        for path in self._paths:
            found, positives = _look_at(path)
            languages.append(found)
            self.max_positives = max(self.max_positives, positives)
        self._size = sum(len(part) for part in languages)
        if not self._size:
            raise InputError(
                "There are no training examples; set `data.train` to sets that have some. "
                f"Received: {[source.path for source in config.train]}."
            )
        _check_lengths(self._features(0), tokenizer)
        self._sampler = sampler_of(config, np.concatenate(languages), seed, batch_size)

    def __len__(self) -> int:
        return self._size

    def example_id(self, position: int) -> str:
        """Returns the id of the example at a position of the stream."""
        return _text(self._features(int(self._sampler(np.array([position]))[0][0])), "id")

    def batches(self, starts: np.ndarray, size: int) -> tf.data.Dataset:
        """Returns batches of `size` consecutive examples of the stream.

        Args:
            starts: Position of the first example of each batch.
            size: Examples per batch.

        Returns:
            A deterministic dataset of `Batch`, at the tokenizer's lengths.
        """
        positions = np.asarray(starts, np.int64)[:, None] + np.arange(size)
        examples, visits = (part.astype(np.int32) for part in self._sampler(positions.ravel()))
        plan = tf.data.Dataset.from_tensor_slices(
            (examples.reshape(positions.shape), visits.reshape(positions.shape))
        )
        # One element with every example, shared by all batches. Parsed once, a batch is a few gathers.
        parsed = self._records().batch(self._size).map(self._parse_all).cache().repeat()
        together = tf.data.Dataset.zip((plan, parsed))
        return together.map(
            lambda place, parsed: self._batch(_Parsed(*parsed), *place),
            num_parallel_calls=2,
            deterministic=True,
        )

    def _parse_all(self, records: tf.Tensor) -> tuple:
        features = tf.io.parse_example(records, _SPECIFICATION)
        queries = features["query_tokens"].to_tensor(shape=[None, self._tokenizer.query_length])
        length = self._tokenizer.document_length
        kinds = (_ParsedDocuments.of(features, kind, length) for kind in ("positive", "negative"))
        return (tf.cast(queries, tf.int32), *map(tuple, kinds))

    def _batch(self, parsed: _Parsed, examples: tf.Tensor, visits: tf.Tensor) -> Batch:
        """Draws one positive and `H` negatives per example, as `TrainingData` does for texts."""
        positives, negatives = _ParsedDocuments(*parsed.positives), _ParsedDocuments(*parsed.negatives)
        examples, visits = (tf.cast(part, tf.int64)[:, None] for part in (examples, visits))
        counts = negatives.count(examples)
        first = draw(self._seed, examples, visits, tf.zeros_like(examples)) % positives.count(examples)
        places = tf.range(tf.maximum(tf.reduce_max(counts), self.hard_negatives))[None, :]
        draws = draw(self._seed, examples, visits, 1 + places)
        others = tf.argsort(tf.where(places < counts, draws, draws.dtype.max), stable=True)
        others = tf.cast(others, tf.int64)[:, : self.hard_negatives]
        every = tf.range(self.max_positives, dtype=tf.int64)[None, :]
        known = positives.find(examples, every)
        chosen = [(positives, positives.find(examples, first)), (negatives, negatives.find(examples, others))]
        length = self._tokenizer.document_length
        ids = [documents.ids(tf.reshape(found, [-1]), length) for documents, found in chosen]
        keys = [tf.gather(documents.keys, tf.reshape(found, [-1])) for documents, found in chosen]
        scores = [tf.gather(documents.scores, found) for documents, found in chosen]
        return Batch(
            query_ids=tf.gather(parsed.query_ids, examples[:, 0]),
            document_ids=tf.concat(ids, axis=0),
            positive_keys=tf.reshape(tf.gather(positives.keys, known), [-1, self.max_positives, 3, 2]),
            document_keys=tf.reshape(tf.concat(keys, axis=0), [-1, 3, 2]),
            teacher_scores=tf.concat(scores, axis=1),
        )

    def _records(self) -> tf.data.Dataset:
        """Returns every record, in the order of the files."""
        return functools.reduce(tf.data.Dataset.concatenate, map(_open, self._paths))

    def _features(self, index: int) -> dict:
        (record,) = self._records().skip(index).take(1).as_numpy_iterator()
        return _parse(record)


class _Parsed(NamedTuple):
    """All examples: `[E, n]` query ids, and the fields of two `_ParsedDocuments`."""

    query_ids: tf.Tensor
    positives: tuple
    negatives: tuple


class _ParsedDocuments(NamedTuple):
    """The positives or the negatives of all examples, `D` documents, and a placeholder for missing ones.

    Attributes:
        tokens: Ids of all documents one after the other, without padding, int32.
        ends: Start of each document in `tokens`, and the end of the last one, `[D + 2]` int64.
        first: First document of each example, and the end, `[E + 1]` int64.
        keys: `[D + 1, 6]` int32, zeros for the placeholder.
        scores: `[D + 1]` float32, NaN for the placeholder.
    """

    tokens: tf.Tensor
    ends: tf.Tensor
    first: tf.Tensor
    keys: tf.Tensor
    scores: tf.Tensor

    @classmethod
    def of(cls, features: dict, kind: str, length: int) -> _ParsedDocuments:
        scores = features[f"{kind}_scores"]
        padded = tf.reshape(features[f"{kind}_tokens"].flat_values, [-1, length])
        lengths = tf.math.count_nonzero(padded, axis=1)
        ends = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        keys = tf.cast(tf.reshape(features[f"{kind}_keys"].flat_values, [-1, 6]), tf.int32)
        return cls(
            tf.cast(tf.boolean_mask(padded, padded != 0), tf.int32),
            tf.concat([ends, ends[-1:]], axis=0),
            scores.row_splits,
            tf.pad(keys, [[0, 1], [0, 0]]),
            tf.concat([scores.flat_values, [float("nan")]], axis=0),
        )

    def count(self, examples: tf.Tensor) -> tf.Tensor:
        """Returns the number of documents of examples."""
        return tf.gather(self.first, examples + 1) - tf.gather(self.first, examples)

    def find(self, examples: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """Finds documents by their numbers in their examples, or the placeholder. The shapes broadcast."""
        there = numbers < self.count(examples)
        return tf.where(there, tf.gather(self.first, examples) + numbers, self.first[-1])

    def ids(self, documents: tf.Tensor, length: int) -> tf.Tensor:
        """Returns `[documents, length]` ids, padded."""
        every = tf.RaggedTensor.from_row_splits(self.tokens, self.ends, validate=False)
        return tf.gather(every, documents).to_tensor(shape=[None, length])


def _open(path: Path) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix == ".gz" else "")


def _look_at(path: Path) -> tuple[np.ndarray, int]:
    """Returns the language of each record of a file, and the largest number of positives."""
    looked_at = {name: _SPECIFICATION[name] for name in ("positive_scores", "query_tokens")}
    looked_at |= {"language": tf.io.FixedLenFeature([], tf.string)}
    languages, most = [np.zeros(0, str)], 1
    try:
        for records in _open(path).batch(_RECORDS_AT_ONCE):
            features = tf.io.parse_example(records, looked_at)
            languages.append(np.char.decode(features["language"].numpy().astype(bytes), "utf-8"))
            counts = features["positive_scores"].row_lengths().numpy()
            if counts.min() < 1 or not features["query_tokens"].row_lengths().numpy().all():
                raise _other_records(path)
            most = max(most, int(counts.max()))
    except tf.errors.InvalidArgumentError:
        raise _other_records(path) from None
    except tf.errors.DataLossError:
        raise InputError(
            "A file of training examples is damaged or ends within a record; write it again. "
            f"Received: {path}."
        ) from None
    return np.concatenate(languages), most


def _other_records(path: Path) -> InputError:
    return InputError(
        "A training set of the format `tokenized` holds other records; leave `format` out for one of "
        f"texts. Received: {str(path)!r}."
    )


def _files(config: DataConfig) -> list[Path]:
    found: list[Path] = []
    for source in config.train:
        if source.format != "tokenized":
            raise InputError(
                "Tokenized training sets cannot be mixed with others; tokenize all of them. "
                f"Received: format {source.format!r} of {source.path!r}."
            )
        found += find_paths(source.path)
    return found


def _documents(features: dict, kind: str, length: int) -> TokenizedDocuments:
    tokens, keys = (
        np.array(features[f"{kind}_{name}"].int64_list.value, np.int64) for name in ("tokens", "keys")
    )
    return TokenizedDocuments(
        tokens.astype(np.int32).reshape(-1, length),
        keys.astype(np.int32).reshape(-1, 3, 2),
        np.array(features[f"{kind}_scores"].float_list.value, np.float32),
    )


def _check_lengths(features: dict, tokenizer: TokenizerConfig) -> None:
    query = len(features["query_tokens"].int64_list.value)
    positives = len(features["positive_scores"].float_list.value)
    document = len(features["positive_tokens"].int64_list.value) // max(positives, 1)
    expected = (tokenizer.query_length, tokenizer.document_length)
    if positives and (query, document) != expected:
        raise InputError(
            f"The examples must be tokenized to the run's lengths, {expected[0]} and {expected[1]}; "
            f"tokenize them again. Received: {query} and {document}."
        )


def _parse(record: bytes) -> dict:
    return dict(tf.train.Example.FromString(record).features.feature)


def _parse_first(record: bytes, path: Path) -> dict:
    """Parses a record and checks that it has the features of a tokenized example."""
    try:
        features = _parse(record)
    except DecodeError:
        features = {}
    if not features.keys() >= _FEATURES:
        raise _other_records(path)
    return features


def _text(features: dict, name: str) -> str:
    return b"".join(features[name].bytes_list.value).decode()

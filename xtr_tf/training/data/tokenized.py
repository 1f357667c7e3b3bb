"""Training examples that were tokenized beforehand: hosts of accelerators read ids, and never text.

A record is a `tf.train.Example` with the bytes features `id` and `language`, the int64 feature
`query_tokens` of `query_length` ids, and for positives and negatives alike, document after document,
`positive_tokens` (`document_length` ids each), `positive_keys` (6 int32 each, see `TextBatch`) and
the float feature `positive_scores`. The TFX pipeline's Transform writes them.
"""

from __future__ import annotations

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
from xtr_tf.training.data.sampling import Sampler
from xtr_tf.training.data.sources import find_paths
from xtr_tf.training.data.tfrecords import TFRecordFile

_FEATURES = {"language", "query_tokens", "positive_tokens", "positive_keys", "positive_scores"}


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
    """Gives the examples of a tokenized set, one after the other.

    Raises:
        InputError: It has records of another kind, or of other lengths.
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
    """The tokenized training sets of a run, in the order in which `TrainingData` gives texts.

    Args:
        config: Which sets, and how they are mixed; all of the format `tokenized`.
        tokenizer: The lengths that the examples were tokenized to.
        seed: Of shuffling and of the choice among positives and negatives.

    Raises:
        InputError: There are no examples, or records of another kind, or they have other lengths.
    """

    def __init__(self, config: DataConfig, tokenizer: TokenizerConfig, seed: int) -> None:
        self._tokenizer = tokenizer
        self._seed = seed
        self.hard_negatives = config.hard_negatives
        self.max_positives = 1
        self._records: list[tuple[TFRecordFile, int]] = []  # read when asked for
        languages: list[str] = []
        for path in _files(config):
            file = TFRecordFile(path, BadRecords(limit=0))
            for number in range(len(file)):
                self._records.append((file, number))
                features = _parse_first(file[number], path)
                languages.append(_text(features, "language"))
                positives = len(features["positive_scores"].float_list.value)
                self.max_positives = max(self.max_positives, positives)
        if not self._records:
            raise InputError(
                "There are no training examples; set `data.train` to sets that have some. "
                f"Received: {[source.path for source in config.train]}."
            )
        _check_lengths(self._features(0), tokenizer)
        self._sampler = Sampler(np.array(languages), config.language_temperature, seed)

    def __len__(self) -> int:
        return len(self._records)

    def example_id(self, position: int) -> str:
        """Names the example at a position of the stream."""
        return _text(self._features(self._sampler(position)[0]), "id")

    def batch(self, position: int, size: int) -> Batch:
        """The `size` examples from a position of the stream on."""
        rows = [self._choose(p) for p in range(position, position + size)]
        # Positives of all rows, then the negatives of each row in turn, as in `TextBatch`.
        chosen = [row.documents for row in rows]
        return Batch(
            query_ids=np.stack([row.query_ids for row in rows]),
            document_ids=np.concatenate([_first(chosen, "ids"), _rest(chosen, "ids")]),
            positive_keys=np.stack([row.positive_keys for row in rows]),
            document_keys=np.concatenate([_first(chosen, "keys"), _rest(chosen, "keys")]),
            teacher_scores=np.stack([documents.scores for documents in chosen]),
        )

    def _choose(self, position: int) -> _Row:
        """One positive and `H` negatives; each visit of an example draws again."""
        index, visit = self._sampler(position)
        features = self._features(index)
        length = self._tokenizer.document_length
        positives, negatives = (_documents(features, kind, length) for kind in ("positive", "negative"))
        random = np.random.default_rng([self._seed, 2, index, visit])
        positive = random.integers(len(positives.scores))
        count = min(self.hard_negatives, len(negatives.scores))
        chosen = random.permutation(len(negatives.scores))[:count]
        missing = self.hard_negatives - count
        keys = np.zeros([self.max_positives, 3, 2], np.int32)
        keys[: len(positives.keys)] = positives.keys
        documents = TokenizedDocuments(
            ids=_padded(positives.ids[positive], negatives.ids[chosen], missing),
            keys=_padded(positives.keys[positive], negatives.keys[chosen], missing),
            scores=np.concatenate(
                [
                    positives.scores[positive : positive + 1],
                    negatives.scores[chosen],
                    np.full(missing, np.nan, np.float32),
                ]
            ),
        )
        return _Row(np.array(features["query_tokens"].int64_list.value, np.int32), documents, keys)

    def _features(self, index: int) -> dict:
        file, number = self._records[index]
        return _parse(file[number])


class _Row(NamedTuple):
    """An example in its place: its query, the positive and negatives drawn, keys of all positives."""

    query_ids: np.ndarray
    documents: TokenizedDocuments
    positive_keys: np.ndarray


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
    if (query, document) != expected:
        raise InputError(
            f"The examples must be tokenized to the run's lengths, {expected[0]} and {expected[1]}; "
            f"tokenize them again. Received: {query} and {document}."
        )


def _parse(record: bytes) -> dict:
    return dict(tf.train.Example.FromString(record).features.feature)


def _parse_first(record: bytes, path: Path) -> dict:
    """Parses a record that was never looked at before, so that later ones need no check."""
    try:
        features = _parse(record)
    except DecodeError:
        features = {}
    if not features.keys() >= _FEATURES:
        raise InputError(
            "A training set of the format `tokenized` holds other records; leave `format` out for one of "
            f"texts. Received: {str(path)!r}."
        )
    return features


def _text(features: dict, name: str) -> str:
    return b"".join(features[name].bytes_list.value).decode()


def _padded(first: np.ndarray, others: np.ndarray, missing: int) -> np.ndarray:
    """`first` before `others`, and zeros for what is missing."""
    zeros = np.zeros([missing, *first.shape], first.dtype)
    return np.concatenate([first[None], others, zeros])


def _first(chosen: list[TokenizedDocuments], name: str) -> np.ndarray:
    return np.stack([getattr(documents, name)[0] for documents in chosen])


def _rest(chosen: list[TokenizedDocuments], name: str) -> np.ndarray:
    return np.concatenate([getattr(documents, name)[1:] for documents in chosen])

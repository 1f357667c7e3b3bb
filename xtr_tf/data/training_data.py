"""All training examples in the order of training, and batches of their texts. Needs no TensorFlow."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xtr_tf.config.schema import DataConfig
from xtr_tf.data.bad_records import BadRecords
from xtr_tf.data.document import Document
from xtr_tf.data.example_source import ExampleSource
from xtr_tf.data.fingerprint import NONE, fingerprint
from xtr_tf.data.open_source import open_source
from xtr_tf.data.sampler import Sampler
from xtr_tf.data.training_example import TrainingExample
from xtr_tf.errors import InputError


class TextBatch(NamedTuple):
    """`B` queries with `H` hard negatives each.

    Attributes:
        queries: `[B]` texts.
        documents: `[B + B·H]` texts: positives, then each query's negatives in turn; empty where
            a query has too few.
        positive_keys: `[B, P, 3, 2]` int32, fingerprints of every known positive of each query.
        document_keys: `[B + B·H, 3, 2]` int32: fingerprints of a document's id, of its content,
            and of the query that it is the positive of.
        teacher_scores: `[B, 1 + H]` float32, NaN where there are none.
    """

    queries: np.ndarray
    documents: np.ndarray
    positive_keys: np.ndarray
    document_keys: np.ndarray
    teacher_scores: np.ndarray


class TrainingData:
    """The training sets of a run as one endless, reproducible stream of examples.

    Args:
        config: Which sets, and how they are mixed.
        seed: Of shuffling and of the choice among positives and negatives.
    """

    def __init__(self, config: DataConfig, seed: int) -> None:
        bad_records = BadRecords(config.max_bad_records)
        self._sources: list[ExampleSource] = [
            source for source_config in config.train for source in open_source(source_config, bad_records)
        ]
        bad_records.report()
        self._ends = np.cumsum([len(source) for source in self._sources])
        if not self._sources or not self._ends[-1]:
            raise InputError(
                "There are no training examples; set `data.train` to sets that have some. "
                f"Received: {[source.path for source in config.train]}."
            )
        languages = np.concatenate([source.languages for source in self._sources])
        self._sampler = Sampler(languages, config.language_temperature, seed)
        self._seed = seed
        self.hard_negatives = config.hard_negatives
        self.max_positives = max(source.max_positives for source in self._sources)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def languages(self) -> list[str]:
        """The languages of the examples."""
        return list(self._sampler.languages)

    def example_id(self, position: int) -> str:
        """Names the example at a position of the stream: its source, and its id or query."""
        source, example = self._example(self._sampler(position)[0])
        return f"{source.name}: {example.id or example.query}"

    def batch(self, position: int, size: int) -> TextBatch:
        """The `size` examples from a position of the stream on."""
        rows = [self._choose(p) for p in range(position, position + size)]
        columns = range(1 + self.hard_negatives)
        # Positives of all rows, then the negatives of each row in turn.
        chosen = [row[0] for row in rows] + [document for row in rows for document in row[1:]]
        return TextBatch(
            queries=np.array([row[0].query.encode() for row in rows], object),
            documents=np.array([entry.content.encode() for entry in chosen], object),
            positive_keys=np.stack([self._positive_keys(row[0]) for row in rows]),
            document_keys=np.stack([entry.keys for entry in chosen]),
            teacher_scores=np.array([[row[c].teacher_score for c in columns] for row in rows], np.float32),
        )

    def _example(self, index: int) -> tuple[ExampleSource, TrainingExample]:
        number = int(np.searchsorted(self._ends, index, side="right"))
        source = self._sources[number]
        return source, source[index - int(self._ends[number]) + len(source)]

    def _choose(self, position: int) -> list[_Chosen]:
        """One positive and `H` negatives; each visit of an example draws anew."""
        index, visit = self._sampler(position)
        source, example = self._example(index)
        random = np.random.default_rng([self._seed, 2, index, visit])
        positive = example.positives[random.integers(len(example.positives))]
        count = min(self.hard_negatives, len(example.negatives))
        places = random.permutation(len(example.negatives))[:count]
        negatives = [_Chosen.of(source, example, example.negatives[place]) for place in places]
        missing = [_Chosen.missing(source, example)] * (self.hard_negatives - count)
        return [_Chosen.of(source, example, positive, is_positive=True), *negatives, *missing]

    def _positive_keys(self, chosen: _Chosen) -> np.ndarray:
        keys = np.zeros([self.max_positives, 3, 2], np.int32)
        for row, document in enumerate(chosen.example.positives):
            keys[row] = _Chosen.of(chosen.source, chosen.example, document, is_positive=True).keys
        return keys


class _Chosen(NamedTuple):
    """A document in its place in a batch."""

    source: ExampleSource
    example: TrainingExample
    content: str
    keys: np.ndarray
    teacher_score: float

    @property
    def query(self) -> str:
        return self.example.query

    @classmethod
    def of(
        cls, source: ExampleSource, example: TrainingExample, document: Document, is_positive: bool = False
    ) -> _Chosen:
        keys = np.stack(
            [
                fingerprint("id", source.name, document.id) if document.id else NONE,
                fingerprint("content", document.content),
                fingerprint("query", example.query.strip().casefold()) if is_positive else NONE,
            ]
        )
        return cls(source, example, document.content, keys, document.teacher_score)

    @classmethod
    def missing(cls, source: ExampleSource, example: TrainingExample) -> _Chosen:
        return cls(source, example, "", np.zeros([3, 2], np.int32), math.nan)

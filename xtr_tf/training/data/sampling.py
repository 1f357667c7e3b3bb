"""The training stream: which example is at which position, a pure function of the seed.

`Sampler` chooses examples and `TrainingData` provides their texts. There is no state to save: any host can
compute any part of any batch, and a run resumes at a step by asking for that step. Knows no tokens.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import NamedTuple

import numpy as np

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.config.training import DataConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.draws import draw
from xtr_tf.training.data.examples import ExampleSource, TrainingExample
from xtr_tf.training.data.sources import open_source


class Sampler:
    """Shuffles examples, and mixes languages in chosen proportions.

    An epoch is as long as the data. In an epoch, language `l` is drawn in proportion to
    `examples(l) ** (1 / temperature)`. The examples of a language come in shuffled rounds: no example comes
    again before all others of its language have come. At temperature 1 an epoch is a permutation of the data.

    With a `run` of more than 1, every `run` consecutive examples have the same language: a language is drawn
    for all of them together, and an epoch is rounded up to whole runs.

    Args:
        languages: Language of each example, `[examples]`.
        temperature: Temperature of the mixture, at least 1.
        seed: Seed of the shuffling.
        run: Number of consecutive examples that share a language.
    """

    def __init__(self, languages: np.ndarray, temperature: float, seed: int, run: int = 1) -> None:
        self._seed = seed
        self._run = run
        self.languages, codes = np.unique(languages, return_inverse=True)
        self._members = [np.flatnonzero(codes == code) for code in range(len(self.languages))]
        sizes = np.array([len(members) for members in self._members], np.float64)
        weights = sizes ** (1 / temperature)
        self._draws = run * _apportion(weights / weights.sum(), math.ceil(len(codes) / run))
        self._ends = np.cumsum(self._draws)
        self._round = functools.lru_cache(maxsize=2 * len(self._members))(self._shuffled_round)
        self._order = functools.lru_cache(maxsize=2)(self._shuffled_order)

    def __call__(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds the examples at some positions of the stream.

        Args:
            positions: `[positions]` integers, from 0.

        Returns:
            The numbers of the examples, and how often each was used before, `[positions]` int64 each.
        """
        epochs, slots = np.divmod(np.asarray(positions, np.int64), self._ends[-1])
        examples, visits = np.empty_like(slots), np.empty_like(slots)
        for epoch in np.unique(epochs):
            rows = np.flatnonzero(epochs == epoch)
            examples[rows], visits[rows] = self._in_epoch(int(epoch), slots[rows])
        return examples, visits

    def _in_epoch(self, epoch: int, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        runs, within_run = np.divmod(slots, self._run)
        draws = self._order(epoch)[runs] * self._run + within_run
        examples, visits = np.empty_like(draws), np.empty_like(draws)
        languages = np.searchsorted(self._ends, draws, side="right")
        for language in np.unique(languages):
            rows = np.flatnonzero(languages == language)
            first = self._ends[language] - self._draws[language]
            within = epoch * self._draws[language] + draws[rows] - first
            visits[rows], places = np.divmod(within, len(self._members[language]))
            for visit in np.unique(visits[rows]):
                same = visits[rows] == visit
                examples[rows[same]] = self._round(int(language), int(visit))[places[same]]
        return examples, visits

    def _shuffled_order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self._seed, 0, epoch]).permutation(self._ends[-1] // self._run)

    def _shuffled_round(self, language: int, visit: int) -> np.ndarray:
        return np.random.default_rng([self._seed, 1, language, visit]).permutation(self._members[language])


def sampler_of(config: DataConfig, languages: np.ndarray, seed: int, batch_size: int) -> Sampler:
    """Returns the sampler that a configuration describes."""
    run = batch_size if config.one_language_per_batch else 1
    return Sampler(languages, config.language_temperature, seed, run)


def _apportion(shares: np.ndarray, total: int) -> np.ndarray:
    """Returns whole numbers that sum to `total`, each within one of its share."""
    exact = shares * total
    counts = np.floor(exact + 1e-9).astype(np.int64)
    largest_remainders = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[largest_remainders] += 1
    return counts


NONE = np.zeros(2, np.int32)


def fingerprint(*parts: str) -> np.ndarray:
    """Returns 64 bits of a hash as two int32. They are the same in every process and never `NONE`."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    pair = np.frombuffer(digest, "<i4")
    return pair if pair.any() else np.ones(2, np.int32)


class TextBatch(NamedTuple):
    """`B` queries with `H` hard negatives each.

    Attributes:
        queries: `[B]` texts.
        documents: `[B + B·H]` texts: the positives, then the negatives of each query in turn. Empty where a
            query has too few negatives.
        positive_keys: `[B, P, 3, 2]` int32, fingerprints of every known positive of each query.
        document_keys: `[B + B·H, 3, 2]` int32: fingerprints of a document's id, of its content, and of the
            query that it is the positive of.
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
        config: Training sets, and how they are mixed.
        seed: Seed of the shuffling and of the choice of positives and negatives.
        batch_size: Examples per update, which share a language if `config` says so.

    Raises:
        InputError: There are no training examples, or a set cannot be used.
    """

    def __init__(self, config: DataConfig, seed: int, batch_size: int = 1) -> None:
        bad_records = BadRecords(config.max_bad_records)
        self._sources: list[ExampleSource] = [
            source for source_config in config.train for source in open_source(source_config, bad_records)
        ]
        self._ends = np.cumsum([len(source) for source in self._sources])
        bad_records.report(usable=int(self._ends[-1]) if self._sources else 0)
        if not self._sources or not self._ends[-1]:
            raise InputError(
                "There are no training examples; set `data.train` to sets that have some. "
                f"Received: {[source.path for source in config.train]}."
            )
        self._languages = np.concatenate([source.languages for source in self._sources])
        self._sampler = sampler_of(config, self._languages, seed, batch_size)
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
        """Names the example at a position of the stream by its source, and its id or query."""
        return self.whole_example(int(self._sampler(np.array([position]))[0][0])).id

    def whole_example(self, index: int) -> WholeExample:
        """Returns an example with all of its documents.

        Args:
            index: Number of the example in the data, not its position in the stream.

        Returns:
            The example.
        """
        source, example = self._example(index)
        count = len(example.positives) + len(example.negatives)
        documents = [PlacedDocument.of(source, example, number) for number in range(count)]
        return WholeExample(
            f"{source.name}: {example.id or example.query}",
            str(self._languages[index]),
            example.query,
            documents[: len(example.positives)],
            documents[len(example.positives) :],
        )

    def batch(self, position: int, size: int) -> TextBatch:
        """Returns the `size` examples starting at a position of the stream.

        Args:
            position: Position in the stream, from 0.
            size: Number of examples.

        Returns:
            Queries, documents, and the keys that connect them.
        """
        places = self._sampler(np.arange(position, position + size))
        rows = [self._choose(int(index), int(visit)) for index, visit in zip(*places, strict=True)]
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

    def _choose(self, index: int, visit: int) -> list[PlacedDocument]:
        """Draws one positive and `H` negatives, differently on each visit of an example."""
        source, example = self._example(index)
        draws = draw(self._seed, np.int64(index), np.int64(visit), np.arange(1 + len(example.negatives)))
        positive = int(draws[0] % len(example.positives))
        count = min(self.hard_negatives, len(example.negatives))
        negatives = len(example.positives) + np.argsort(draws[1:], kind="stable")[:count]
        missing = [PlacedDocument.missing(source, example)] * (self.hard_negatives - count)
        chosen = [PlacedDocument.of(source, example, index) for index in (positive, *negatives.tolist())]
        return [*chosen, *missing]

    def _positive_keys(self, chosen: PlacedDocument) -> np.ndarray:
        keys = np.zeros([self.max_positives, 3, 2], np.int32)
        for row in range(len(chosen.example.positives)):
            keys[row] = PlacedDocument.of(chosen.source, chosen.example, row).keys
        return keys


class PlacedDocument(NamedTuple):
    """A document of an example.

    Attributes:
        source: Source of the example.
        example: Example that the document belongs to.
        content: Title and text of the document.
        keys: `[3, 2]` int32, see `TextBatch`.
        teacher_score: Score of the teacher, NaN if there is none.
    """

    source: ExampleSource
    example: TrainingExample
    content: str
    keys: np.ndarray
    teacher_score: float

    @property
    def query(self) -> str:
        """Query of the example."""
        return self.example.query

    @classmethod
    def of(cls, source: ExampleSource, example: TrainingExample, index: int) -> PlacedDocument:
        """Returns a document of an example.

        Args:
            source: Source of the example.
            example: The example.
            index: Number of the document, first through the positives and then through the negatives.

        Returns:
            The document.
        """
        document = (*example.positives, *example.negatives)[index]
        is_positive = index < len(example.positives)
        keys = np.stack(
            [
                fingerprint("id", source.name, document.id) if document.id else NONE,
                fingerprint("content", document.full_text),
                fingerprint("query", example.query.strip().casefold()) if is_positive else NONE,
            ]
        )
        return cls(source, example, document.full_text, keys, example.teacher_score(index))

    @classmethod
    def missing(cls, source: ExampleSource, example: TrainingExample) -> PlacedDocument:
        """Returns the placeholder for a negative where an example has too few."""
        return cls(source, example, "", np.zeros([3, 2], np.int32), math.nan)


class WholeExample(NamedTuple):
    """An example with everything that a batch can use.

    Attributes:
        id: Source of the example, and its id or query.
        language: Language code.
        query: Text of the query.
        positives: Documents that answer it.
        negatives: Documents that do not answer it.
    """

    id: str
    language: str
    query: str
    positives: list[PlacedDocument]
    negatives: list[PlacedDocument]

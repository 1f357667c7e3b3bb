"""The development set that models are judged by, read from `Examples` artifacts in this process.

Use it for splits that are small enough to read one example after the other. Beam reads large splits.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import tensorflow as tf
from tfx.types import Artifact, artifact_utils
from tfx.utils import io_utils

from tfx_pipeline.data.example_gen import parse_document
from tfx_pipeline.data.languages import LanguagePart, LanguageParts
from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.errors import InputError
from xtr_tf.training.data.tfrecords import parse_example


def read_split(examples: Artifact, split: str) -> Iterator[bytes]:
    """Reads the serialised examples of a split.

    Args:
        examples: The artifact.
        split: Name of the split.

    Yields:
        Serialised examples.

    Raises:
        InputError: The artifact has no such split.
    """
    names = artifact_utils.decode_split_names(examples.split_names)
    if split not in names:
        raise InputError(f"The examples have the splits {', '.join(names)}. Received: split {split!r}.")
    pattern = io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split))
    files = sorted(tf.io.gfile.glob(pattern))
    yield from tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()


def read_all(examples: Artifact) -> Iterator[bytes]:
    """Reads the serialised examples of every split."""
    for split in artifact_utils.decode_split_names(examples.split_names):
        yield from read_split(examples, split)


#: The split of the training examples that models are judged on.
SPLIT = "eval"

#: Part of its queries: all, those that parameters are chosen on, or the others.
Part = Literal["all", "choosing", "judging"]
_CHOOSING_ONE_IN = 3


@dataclasses.dataclass(frozen=True)
class DevelopmentSet:
    """The data that models are judged by.

    Attributes:
        dataset: Queries and judgements whose documents are in the corpus.
        left_out: Number of judgements whose documents are not in the corpus.
        judgements: Number of all judgements.
        lost_languages: Languages in which no query has a document left in the corpus.
        documents: Number of documents in the corpus.
        languages: Documents of the corpus by language.
    """

    dataset: Dataset
    left_out: int
    judgements: int
    lost_languages: tuple[str, ...]
    documents: int
    languages: Mapping[str, LanguagePart]

    def without_texts(self) -> DevelopmentSet:
        """Returns the same set without the texts of documents in memory, only ids and languages."""
        dataset = dataclasses.replace(self.dataset, corpus=_WithoutTexts(self.dataset.corpus))
        return dataclasses.replace(self, dataset=dataset)


def development_set(examples: Artifact, corpus: Artifact, metric: str, part: Part = "all") -> DevelopmentSet:
    """Reads the queries of the split `eval`, judged by the ids of their positives.

    Args:
        examples: Training examples.
        corpus: Documents.
        metric: Metric that is reported for the set.
        part: Part of the queries. A third of the queries of every language is for choosing parameters, and
            two thirds are for judging. All other attributes of the result describe all queries.

    Returns:
        Queries and judgements.

    Raises:
        InputError: No query of the split names a positive that is in the corpus, or no language has enough
            queries to divide.
    """
    documents = _Corpus(corpus)
    parts = LanguageParts()
    known = {document.id for document in map(parts.count, documents)}
    queries: list[Query] = []
    judgements: dict[str, dict[str, int]] = {}
    languages: set[str] = set()
    every = 0
    for number, record in enumerate(read_split(examples, SPLIT)):
        example = parse_example(record, UNKNOWN_LANGUAGE)
        named = {document.id for document in example.positives if document.id}
        relevant = dict.fromkeys(sorted(named & known), 1)
        every += len(named)
        languages |= {example.language} if named else set()
        # Files may give no ids, or one twice.
        name = example.id if example.id and example.id not in judgements else f"{example.id}#{number}"
        if relevant:
            queries.append(Query(name, example.query, example.language))
            judgements[name] = relevant
    if not queries:
        raise InputError(
            f"A model is judged by the queries of the split `{SPLIT}`, whose positives need ids of documents "
            f"in the corpus; add some. Received: no such query in {examples.uri}."
        )
    chosen = _of_part(queries, part)
    if not chosen:
        raise InputError(
            f"Parameters are chosen on one of {_CHOOSING_ONE_IN} queries of each language of the split "
            f"`{SPLIT}`; add queries. Received: {len(queries)}, not as many in any language."
        )
    return DevelopmentSet(
        Dataset(
            SPLIT,
            chosen,
            {query.id: judgements[query.id] for query in chosen},
            documents,
            metric=metric,
        ),
        left_out=every - sum(map(len, judgements.values())),
        judgements=every,
        lost_languages=tuple(sorted(languages - {query.language for query in queries})),
        documents=len(known),
        languages=parts.found,
    )


def _of_part(queries: Sequence[Query], part: Part) -> tuple[Query, ...]:
    """Divides queries by their texts, so that a query stays in its part when others are added or removed."""
    choosing: set[str] = set()
    for language in {query.language for query in queries}:
        own = [query for query in queries if query.language == language]
        own.sort(key=lambda query: (hashlib.sha256(query.text.encode()).digest(), query.id))
        choosing |= {query.id for query in own[: len(own) // _CHOOSING_ONE_IN]}
    if part == "all":
        return tuple(queries)
    return tuple(query for query in queries if (query.id in choosing) == (part == "choosing"))


class _Corpus(Iterable[Document]):
    """The documents of an artifact, read from the start on each iteration."""

    def __init__(self, corpus: Artifact) -> None:
        self._corpus = corpus

    def __iter__(self) -> Iterator[Document]:
        return map(parse_document, read_all(self._corpus))


class _WithoutTexts(Iterable[Document]):
    """The ids and languages of documents, read from the start on each iteration."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = documents

    def __iter__(self) -> Iterator[Document]:
        return (Document(own.id, "", language=own.language) for own in self._documents)

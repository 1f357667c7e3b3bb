"""Test collections as training data: what training adds to the common datasets.

`xtr_tf.collections` reads the folders. This file adds the names of the sets in a run, the hard negatives of
MS MARCO, and examples made from queries, judgements and documents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.beir import load_beir
from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.collections.lines import read_columns, read_objects
from xtr_tf.collections.miracl import load_miracl
from xtr_tf.collections.ms_marco import load_ms_marco
from xtr_tf.training.data.examples import TrainingExample

#: Formats of a folder with queries, judgements and a corpus.
FORMATS = ("beir", "ms_marco", "miracl")


def load_judged(
    format_: str, folder: Path, split: str, language: str, bad_records: BadRecords
) -> list[Dataset]:
    """Loads the datasets of a folder and names them after it. MIRACL has several.

    Args:
        format_: One of `FORMATS`.
        folder: The folder.
        split: Split of queries and judgements.
        language: Language of texts that do not name one. For MIRACL, the only language to load, unless it is
            `und`.
        bad_records: Collects bad records.

    Returns:
        The datasets.
    """
    if format_ == "miracl":
        only = None if language == UNKNOWN_LANGUAGE else language
        languages = load_miracl(folder, split, language=only, on_bad=bad_records.skip)
        return [
            dataclasses.replace(dataset, name=f"{folder}/{dataset.name.removeprefix('miracl/')}")
            for dataset in languages
        ]
    load = load_beir if format_ == "beir" else load_ms_marco
    dataset = load(folder, split, language=language, on_bad=bad_records.skip)
    return [dataclasses.replace(dataset, name=str(folder))]


def with_hard_negatives(dataset: Dataset, folder: Path, split: str, bad_records: BadRecords) -> Dataset:
    """Adds the mined negatives of an MS MARCO folder to its dataset, as judgements of grade 0.

    They come from `qidpidtriples.SPLIT*.tsv` (query, positive and negative ids), and from
    `*hard-negatives*.jsonl*` with objects `{"qid", "neg": {"system": [ids]}}`, if these files exist.

    Args:
        dataset: Dataset of an MS MARCO folder.
        folder: The folder.
        split: Split of the queries.
        bad_records: Collects lines that cannot be read.

    Returns:
        The dataset with additional judgements.
    """
    judgements = {query: dict(grades) for query, grades in dataset.judgements.items()}
    for path in sorted(folder.glob(f"qidpidtriples.{split}*.tsv*")):
        for number, (query, _, negative) in read_columns(path, 3, bad_records.skip):
            if query in judgements:
                judgements[query].setdefault(negative, 0)
            else:
                bad_records.skip(path, number, f"query {query!r} has no judgements")
    for path in sorted(folder.glob("*hard-negatives*.jsonl*")):
        for number, fields in read_objects(path, bad_records.skip):
            try:
                mined = list(_mined_negatives(fields))
            except (KeyError, TypeError, AttributeError):
                bad_records.skip(path, number, "the object has no `qid` and `neg`")
                continue
            for query, negative in mined:
                if query in judgements:
                    judgements[query].setdefault(negative, 0)
    return dataclasses.replace(dataset, judgements=judgements)


def _mined_negatives(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for found in fields["neg"].values():
        for document in found:
            yield str(fields["qid"]), str(document)


class JudgedSource:
    """Training examples by number. Documents with a grade above 0 are positives, other judged ones negatives.

    Only judged documents are kept in memory.

    Args:
        dataset: Queries, judgements and the corpus.
        bad_records: Collects judgements whose query or document is missing.
    """

    def __init__(self, dataset: Dataset, bad_records: BadRecords) -> None:
        self.name = dataset.name
        self._queries = {query.id: query for query in dataset.queries}
        judged = {document for grades in dataset.judgements.values() for document in grades}
        self._documents = dataset.documents(judged)
        for number, query in enumerate(dataset.unknown_queries, start=1):
            bad_records.skip(dataset.name, number, f"query {query!r} is judged, but absent")
        self._examples: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        for number, (query, grades) in enumerate(dataset.judgements.items(), start=1):
            known = {document: grade for document, grade in grades.items() if document in self._documents}
            for document in (document for document in grades if document not in known):
                bad_records.miss_document(dataset.name, number, query, document)
            positives = tuple(document for document, grade in known.items() if grade > 0)
            negatives = tuple(document for document, grade in known.items() if grade <= 0)
            if positives:
                self._examples.append((query, positives, negatives))
        self.languages = np.array(
            [self._queries[query].language for query, _, _ in self._examples], dtype=str
        )
        self.max_positives = max((len(positives) for _, positives, _ in self._examples), default=1)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> TrainingExample:
        query, positives, negatives = self._examples[index]
        return TrainingExample(
            id=query,
            query=self._queries[query].text,
            positives=tuple(self._documents[document] for document in positives),
            negatives=tuple(self._documents[document] for document in negatives),
            language=self._queries[query].language,
        )

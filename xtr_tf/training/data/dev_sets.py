"""Development sets as ids, from texts or from tokenized examples. They are searched during training.

Keeps all ids of a set in memory. Knows neither encoders nor scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.dataset import Dataset
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.sources import open_datasets
from xtr_tf.training.data.tokenized import read_tokenized

_TEXTS_AT_ONCE = 1024


class DevSet(NamedTuple):
    """Judged queries over documents.

    Attributes:
        name: Name of the set.
        queries: Names of the queries.
        languages: Language of each query.
        query_ids: `[queries, n]` int32.
        documents: Names of the documents.
        document_ids: `[documents, m]` int32.
        judgements: Grades by query and document.
    """

    name: str
    queries: list[str]
    languages: list[str]
    query_ids: np.ndarray
    documents: list[str]
    document_ids: np.ndarray
    judgements: dict[str, dict[str, int]]


def open_dev_sets(config: DataConfig, tokenizer: Tokenizer) -> list[DevSet]:
    """Opens the development sets of a run.

    Args:
        config: Settings with the sources `dev`.
        tokenizer: Tokenizer of the run.

    Returns:
        All sets, tokenized and in memory.

    Raises:
        InputError: A set cannot be read, or has no documents or no judged queries.
    """
    bad_records = BadRecords(config.max_bad_records)
    sets: list[DevSet] = []
    for source in config.dev:
        if source.format == "tokenized":
            opened = [_of_tokenized(source, tokenizer)]
        else:
            opened = [_of_texts(dataset, tokenizer) for dataset in open_datasets(source, bad_records)]
        for dev_set in opened:
            if not dev_set.queries:
                raise InputError(
                    "A development set needs judged queries; check its files and split. "
                    f"Received: {dev_set.name!r}, split {source.split!r}."
                )
        sets += opened
    bad_records.report(usable=sum(len(dev_set.queries) for dev_set in sets))
    return sets


def _of_texts(dataset: Dataset, tokenizer: Tokenizer) -> DevSet:
    documents = list(dataset.corpus)
    return DevSet(
        dataset.name,
        [query.id for query in dataset.queries],
        [query.language for query in dataset.queries],
        _ids(tokenizer.tokenize_queries, [query.text for query in dataset.queries]),
        [document.id for document in documents],
        _ids(tokenizer.tokenize_documents, [document.full_text for document in documents]),
        {query: dict(grades) for query, grades in dataset.judgements.items()},
    )


def _ids(tokenize: Callable[[tf.Tensor], tf.Tensor], texts: Sequence[str]) -> np.ndarray:
    parts = [texts[start : start + _TEXTS_AT_ONCE] for start in range(0, len(texts), _TEXTS_AT_ONCE)]
    return np.concatenate([tokenize(tf.constant(part)).numpy() for part in parts or [[""]]])


def _of_tokenized(source: SourceConfig, tokenizer: Tokenizer) -> DevSet:
    """Makes the corpus of the documents of all examples. Documents with equal content are one."""
    queries, languages, query_ids = [], [], []
    documents: dict[str, np.ndarray] = {}
    judgements: dict[str, dict[str, int]] = {}
    for number, example in enumerate(read_tokenized(source, tokenizer.config)):
        name = f"{example.id or 'query'}#{number}"
        for kind in (example.positives, example.negatives):
            for ids, keys in zip(kind.ids, kind.keys, strict=True):
                documents.setdefault(_content(keys), ids)
        queries.append(name)
        languages.append(example.language)
        query_ids.append(example.query_ids)
        judgements[name] = {_content(keys): 1 for keys in example.positives.keys}
    return DevSet(
        _name(source.path),
        queries,
        languages,
        np.array(query_ids, np.int32),
        list(documents),
        np.array(list(documents.values()), np.int32),
        judgements,
    )


def _name(path: str) -> str:
    """Returns the name of a set: its path, or the name of the folder that a pattern searches."""
    return Path(path).parent.name if "*" in path else path


def _content(keys: np.ndarray) -> str:
    """Names a document by the fingerprint of its content."""
    return keys[1].astype("<i4").tobytes().hex()

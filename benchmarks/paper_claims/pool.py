"""The pool that every model is searched in: test sets, and passages of the training sets as distractors.

The paper's k' of 40,000 is a small share of MS MARCO's 484 million tokens. In a test set of its own, the same
share is a handful of tokens. In a pool of ten million tokens it is 826. Knows nothing about encoders.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from training_pairs import MEASURED, read_examples, text_key, training_files

from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import Document
from xtr_tf.collections.loading import load_datasets
from xtr_tf.errors import InputError
from xtr_tf.vectors.document_encoder import TokenCounter

#: Test sets of which only the documents are used.
DISTRACTORS = ("cranfield_en", "cacm_en", "fairytaleqa_en")
# Documents whose tokens are counted at once.
_COUNTED = 512


@dataclasses.dataclass(frozen=True)
class Pool:
    """Documents to search in, and the test sets whose judgements refer to them.

    Attributes:
        documents: In an order that depends only on their texts.
        tokens: Number of their tokens.
        datasets: The measured sets by name, with their sampled queries.
    """

    documents: Sequence[Document]
    tokens: int
    datasets: Mapping[str, Dataset]

    @cached_property
    def key(self) -> str:
        """A hash that two pools share exactly if they have the same texts and the same queries."""
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(f"{document.id} {document.content_hash}\n".encode())
        for name, dataset in self.datasets.items():
            for query in dataset.queries:
                answers = sorted(dataset.judgements[query.id].items())
                digest.update(f"{name} {query.text} {answers}\n".encode())
        return digest.hexdigest()


def build_pool(tests: Path, training: Path, counter: TokenCounter, tokens: int, most_queries: int) -> Pool:
    """Builds a pool of at least `tokens` tokens.

    Documents come in this order until there are enough: those that are judged for a sampled query, which are
    always in the pool, the others of the measured sets, `DISTRACTORS`, and passages of the training sets. Of
    documents with the same text, the first is kept, and the judgements of the others refer to it.

    Args:
        tests: Folder of the test sets.
        training: Folder that `training_pairs.py` wrote.
        counter: Counts tokens as all models do.
        tokens: Least number of tokens.
        most_queries: Maximum number of queries per measured set; 0 for all.

    Returns:
        The pool.

    Raises:
        InputError: The data have fewer tokens.
    """
    loaded = {dataset.name: dataset for dataset in load_datasets(tests / name for name in MEASURED)}
    sampled = {name: dataset.sample(most_queries, seed=0) for name, dataset in loaded.items()}
    measured = {name: list(dataset.corpus) for name, dataset in sampled.items()}
    judged = _judged(sampled, measured)
    others = load_datasets(tests / name for name in DISTRACTORS)
    kept = deduplicated(
        itertools.chain(
            _renamed(judged),
            _renamed(measured),
            _renamed({dataset.name: dataset.corpus for dataset in others}),
            _passages(training),
        )
    )
    required = len({_key(document) for documents in judged.values() for document in documents})
    chosen, counted = _enough(kept.values(), required, counter, tokens)
    # Documents with equal scores are ranked in this order, which must not favour the judged ones.
    chosen.sort(key=lambda document: (document.content_hash, document.id))
    datasets = {
        name: _referring_to(dataset, {own.id: kept[_key(own)].id for own in measured[name]})
        for name, dataset in sampled.items()
    }
    return Pool(chosen, counted, datasets)


def deduplicated(documents: Iterable[Document]) -> dict[str, Document]:
    """The first document of each text, by the key of the text."""
    kept: dict[str, Document] = {}
    for document in documents:
        kept.setdefault(_key(document), document)
    return kept


def _key(document: Document) -> str:
    return text_key(document.text) or text_key(document.title)


def _judged(
    datasets: Mapping[str, Dataset], corpora: Mapping[str, Sequence[Document]]
) -> dict[str, list[Document]]:
    """The documents of each set that are judged for one of its queries."""
    ids = {
        name: {key for query in dataset.queries for key in dataset.judgements[query.id]}
        for name, dataset in datasets.items()
    }
    return {
        name: [document for document in corpus if document.id in ids[name]]
        for name, corpus in corpora.items()
    }


def _renamed(corpora: Mapping[str, Iterable[Document]]) -> Iterator[Document]:
    """The documents of all sets, with ids that are unique among them."""
    for name, documents in corpora.items():
        for document in documents:
            yield dataclasses.replace(document, id=f"{name}/{document.id}")


def _passages(training: Path) -> list[Document]:
    """The passages of all training sets, mixed by the hash of their text."""
    passages = (
        dataclasses.replace(document, id=f"train/{document.content_hash}")
        for path in training_files(training)
        for example in read_examples(path)
        for document in example.positives
    )
    return sorted(passages, key=lambda passage: passage.id)


def _enough(
    documents: Iterable[Document], at_least: int, counter: TokenCounter, tokens: int
) -> tuple[list[Document], int]:
    """The first documents that have so many tokens together, and how many they have."""
    chosen: list[Document] = []
    counted = 0
    remaining = iter(documents)
    while group := list(itertools.islice(remaining, _COUNTED)):
        counts = counter.count([document.full_text for document in group])
        for document, count in zip(group, counts.tolist(), strict=True):
            if counted >= tokens and len(chosen) >= at_least:
                return chosen, counted
            chosen.append(document)
            counted += count
    if counted < tokens:
        raise InputError(
            "The data have fewer tokens than the pool is to have; choose a smaller one (`--tokens`). "
            f"Received: {counted:,} tokens instead of {tokens:,}."
        )
    return chosen, counted


def _referring_to(dataset: Dataset, ids: Mapping[str, str]) -> Dataset:
    """The dataset with the judgements of its queries under the pool's ids."""
    judgements = {
        query.id: {ids[key]: grade for key, grade in dataset.judgements[query.id].items() if key in ids}
        for query in dataset.queries
    }
    return dataclasses.replace(dataset, judgements=judgements)

"""The development queries of a pipeline's examples, as a test collection of `xtr_tf.evaluation`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfx.types import Artifact

from tfx_pipeline.example_gen.corpus_executor import parse_document
from tfx_pipeline.example_reader import read_all, read_split
from xtr_tf.corpus.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.data.tfrecord_source import parse_example
from xtr_tf.errors import InputError
from xtr_tf.evaluation.datasets.dataset import Dataset
from xtr_tf.evaluation.datasets.query import Query

#: The split of the training examples that models are judged on.
SPLIT = "eval"


def development_set(examples: Artifact, corpus: Artifact, metric: str) -> Dataset:
    """Queries of the split `eval`, judged by their positives' ids.

    Args:
        examples: Training examples.
        corpus: Documents.
        metric: What the set is reported with.

    Raises:
        InputError: No query of the split names a positive.
    """
    queries: list[Query] = []
    judgements: dict[str, dict[str, int]] = {}
    for number, record in enumerate(read_split(examples, SPLIT)):
        example = parse_example(record, UNKNOWN_LANGUAGE)
        relevant = {document.id: 1 for document in example.positives if document.id}
        # Files may give no ids, or one twice.
        name = example.id if example.id and example.id not in judgements else f"{example.id}#{number}"
        if relevant:
            queries.append(Query(name, example.query, example.language))
            judgements[name] = relevant
    if not queries:
        raise InputError(
            f"A model is judged by the queries of the split `{SPLIT}`, whose positives need ids; add some. "
            f"Received: no such query in {examples.uri}."
        )
    return Dataset(SPLIT, tuple(queries), judgements, _Corpus(corpus), metric=metric)


class _Corpus(Iterable[Document]):
    """The documents of an artifact, read from the start each time."""

    def __init__(self, corpus: Artifact) -> None:
        self._corpus = corpus

    def __iter__(self) -> Iterator[Document]:
        return map(parse_document, read_all(self._corpus))

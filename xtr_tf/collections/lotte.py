"""LoTTE: `DOMAIN/SPLIT/collection.tsv` with search and forum questions over the same passages.

[ColBERTv2](https://arxiv.org/abs/2112.01488), reported with Success@5. The paper does not average domains:
the pooled domain is a dataset of its own.
"""

from __future__ import annotations

from pathlib import Path

from xtr_tf.collections.bad_records import refuse
from xtr_tf.collections.compression import find_file, require_file
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.lines import read_columns, read_objects

_KINDS = ("search", "forum")


def is_lotte(folder: Path) -> bool:
    """Whether `folder` is one split of a domain."""
    return find_file(folder, "collection.tsv") is not None and any(
        find_file(folder, f"qas.{kind}.jsonl") for kind in _KINDS
    )


def load_lotte(folder: Path) -> list[Dataset]:
    """Loads the search and forum questions of one domain and split; missing ones are left out."""
    found = [(kind, path) for kind in _KINDS if (path := find_file(folder, f"qas.{kind}.jsonl"))]
    return [_load_kind(folder, kind, path) for kind, path in found]


def _load_kind(folder: Path, kind: str, path: Path) -> Dataset:
    queries, judgements = [], {}
    for number, fields in read_objects(path):
        if not fields.keys() >= {"qid", "query", "answer_pids"} or not isinstance(
            fields["answer_pids"], list
        ):
            refuse(path, number, "a question has `qid`, `query` and a list of passages, `answer_pids`")
        identifier = str(fields["qid"])
        queries.append(Query(identifier, str(fields["query"]), "en"))
        judgements[identifier] = {str(passage): 1 for passage in fields["answer_pids"]}
    asked = find_file(folder, f"questions.{kind}.tsv")
    return Dataset(
        name=f"lotte/{folder.parent.name}/{folder.name}/{kind}",
        queries=tuple(queries),
        judgements=judgements,
        corpus=CorpusReader(require_file(folder, "collection.tsv"), "en"),
        metric="Success@5",
        collection=f"LoTTE {kind}",
        in_average=False,
        language="en",
        unjudged_queries=0 if asked is None else sum(1 for _ in read_columns(asked, 2)) - len(queries),
    )

"""MS MARCO passage ranking as published: `collection.tsv`, `queries.SPLIT.tsv`, `qrels.SPLIT.tsv`.

[MS MARCO](https://arxiv.org/abs/1611.09268), reported with MRR@10. `beir.py` reads the same data in BEIR's
files.
"""

from __future__ import annotations

from pathlib import Path

from xtr_tf.collections.bad_records import OnBadRecord, ignore, refuse
from xtr_tf.collections.beir import MS_MARCO
from xtr_tf.collections.compression import find_file, require_file
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, language_of_name, read_query_columns
from xtr_tf.collections.judgements import read_judgements

# Published figures are for the small development set.
_PREFERRED_SPLITS = ("dev.small", "dev")


def is_ms_marco(folder: Path) -> bool:
    """Whether `folder` has MS MARCO's passages and queries; `load_ms_marco` reports other missing files."""
    return find_file(folder, "collection.tsv") is not None and any(folder.glob("queries.*.tsv*"))


def load_ms_marco(
    folder: Path,
    split: str | None = None,
    *,
    language: str | None = None,
    on_bad: OnBadRecord | None = None,
) -> Dataset:
    """Loads a dataset in MS MARCO's layout.

    Args:
        folder: The folder of the dataset.
        split: Split of the queries and judgements; by default `dev.small`, or `dev` if there is none.
        language: Language of queries and passages; by default guessed from the name of the folder.
        on_bad: Called for bad records; by default those of the corpus are skipped and others refused.

    Returns:
        The dataset.

    Raises:
        InputError: A file is missing or cannot be used.
    """
    if split is None:
        there = [name for name in _PREFERRED_SPLITS if find_file(folder, f"qrels.{name}.tsv")]
        split = there[0] if there else _PREFERRED_SPLITS[-1]
    language = language or ("en" if folder.name == MS_MARCO else language_of_name(folder.name))
    return Dataset.of_judged_queries(
        name=folder.name,
        queries=read_query_columns(require_file(folder, f"queries.{split}.tsv"), language, on_bad or refuse),
        judgements=read_judgements(require_file(folder, f"qrels.{split}.tsv"), on_bad or refuse),
        corpus=CorpusReader(require_file(folder, "collection.tsv"), language, on_bad or ignore),
        metric="MRR@10",
        in_average=False,
    )

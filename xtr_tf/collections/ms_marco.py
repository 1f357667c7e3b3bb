"""MS MARCO passage ranking as it is published: `collection.tsv`, `queries.SPLIT.tsv`, `qrels.SPLIT.tsv`.

[MS MARCO](https://arxiv.org/abs/1611.09268), measured by MRR@10. The same data in BEIR's files is
read by `beir.py`.
"""

from __future__ import annotations

from pathlib import Path

from xtr_tf.collections.bad_records import OnBadRecord, ignore, refuse
from xtr_tf.collections.beir import MS_MARCO
from xtr_tf.collections.compression import find_file, require_file
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, language_of_name, read_query_columns
from xtr_tf.collections.judgements import read_judgements

# The published figures are those of the small development set.
_PREFERRED_SPLITS = ("dev.small", "dev")


def is_ms_marco(folder: Path) -> bool:
    """Whether `folder` has MS MARCO's passages and queries; what else it lacks is told by `load_ms_marco`."""
    return find_file(folder, "collection.tsv") is not None and any(folder.glob("queries.*.tsv*"))


def load_ms_marco(
    folder: Path,
    split: str | None = None,
    *,
    language: str | None = None,
    on_bad: OnBadRecord | None = None,
) -> Dataset:
    """Loads one folder.

    Args:
        folder: The folder.
        split: Which queries and judgements; `dev.small` if not given, or `dev` where that is not there.
        language: Of queries and passages; by the folder's name if not given.
        on_bad: Told of bad records; if not given, those of the corpus are left out, others refused.

    Returns:
        The dataset.
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

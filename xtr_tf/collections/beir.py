"""Folders in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`.

For [BEIR](https://arxiv.org/abs/2104.08663) and every other collection in the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xtr_tf.collections.bad_records import OnBadRecord, ignore, refuse
from xtr_tf.collections.compression import find_file, require_file
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, Query, language_of_name
from xtr_tf.collections.judgements import read_judgements
from xtr_tf.collections.lines import read_objects
from xtr_tf.errors import InputError

#: The 13 zero-shot datasets that the XTR paper averages over, by their names in BEIR.
BEIR_13 = (
    "arguana",
    "webis-touche2020",
    "fever",
    "climate-fever",
    "scifact",
    "trec-covid",
    "nfcorpus",
    "nq",
    "hotpotqa",
    "fiqa",
    "scidocs",
    "dbpedia-entity",
    "quora",
)
MS_MARCO = "msmarco"
# The queries of these datasets are documents of their corpus, too.
_QUERIES_ARE_DOCUMENTS = ("arguana", "quora")


def is_beir(folder: Path) -> bool:
    """Whether `folder` has BEIR's queries; `load_beir` reports other missing files."""
    return find_file(folder, "queries.jsonl") is not None


def load_beir(
    folder: Path,
    split: str | None = None,
    *,
    collection: str = "",
    language: str | None = None,
    on_bad: OnBadRecord | None = None,
) -> Dataset:
    """Loads a dataset in BEIR's layout.

    Args:
        folder: The folder of the dataset.
        split: Split of the judgements; by default `test`, or `dev` if there is no `test` (and for MS MARCO,
            whose test judgements belong to another task).
        collection: The collection that the folder belongs to, if any.
        language: Language of queries and documents that do not name one; by default guessed from the name
            of the folder.
        on_bad: Called for bad records; by default those of the corpus are skipped and others refused.

    Returns:
        The dataset. Its corpus is read when it is iterated over.

    Raises:
        InputError: A file is missing or cannot be used.
    """
    known = folder.name in (*BEIR_13, MS_MARCO)
    own_language = "en" if known else language_of_name(folder.name)
    if own_language == folder.name:  # a bare language code needs the name of its collection
        collection = folder.parent.name
    language = language or own_language
    judgements = read_judgements(_judgements_file(folder, split), on_bad or refuse)
    return Dataset.of_judged_queries(
        name=f"{collection}/{folder.name}" if collection and not known else folder.name,
        queries=_queries(require_file(folder, "queries.jsonl"), language, on_bad or refuse),
        judgements=judgements,
        corpus=CorpusReader(require_file(folder, "corpus.jsonl"), language, on_bad or ignore),
        collection="BEIR" if known else collection,
        in_average=folder.name != MS_MARCO,
        ignores_own_document=known and folder.name in _QUERIES_ARE_DOCUMENTS,
    )


def _queries(path: Path, language: str, on_bad: OnBadRecord) -> Iterator[Query]:
    for number, fields in read_objects(path, on_bad):
        try:
            query = Query.from_fields(fields, language)
        except ValueError as error:
            on_bad(path, number, str(error))
        else:
            yield query


def _judgements_file(folder: Path, split: str | None) -> Path:
    preferred = ("dev", "test") if folder.name == MS_MARCO else ("test", "dev")
    for candidate in (split,) if split else preferred:
        if found := find_file(folder / "qrels", f"{candidate}.tsv"):
            return found
    there = ", ".join(sorted(path.name for path in (folder / "qrels").glob("*"))) or "none"
    raise InputError(
        f"The folder lacks qrels/{split or preferred[0]}.tsv; choose a split that it has ({there}). "
        f"Received: {str(folder)!r}."
    )

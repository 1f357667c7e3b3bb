"""Folders in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`.

[BEIR](https://arxiv.org/abs/2104.08663), and any collection that someone put into the same files.
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

#: The 13 zero-shot datasets that XTR's average is over, by BEIR's names.
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
# Their queries are in the corpus, too.
_QUERIES_ARE_DOCUMENTS = ("arguana", "quora")


def is_beir(folder: Path) -> bool:
    """Whether `folder` has BEIR's queries; what else it lacks is told by `load_beir`."""
    return find_file(folder, "queries.jsonl") is not None


def load_beir(
    folder: Path,
    split: str | None = None,
    *,
    collection: str = "",
    language: str | None = None,
    on_bad: OnBadRecord | None = None,
) -> Dataset:
    """Loads one folder.

    Args:
        folder: The folder.
        split: Which judgements; `test` if not given, or `dev` where there is no test (and for MS MARCO,
            whose test judgements are another task's).
        collection: The collection it was found in, if any.
        language: Of queries and documents that name none; by the folder's name if not given.
        on_bad: Told of bad records; if not given, those of the corpus are left out, others refused.

    Returns:
        The dataset; its corpus is read when it is asked for.
    """
    known = folder.name in (*BEIR_13, MS_MARCO)
    own_language = "en" if known else language_of_name(folder.name)
    if own_language == folder.name:  # a language says nothing without what it is the language of
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

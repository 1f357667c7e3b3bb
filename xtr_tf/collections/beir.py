"""Folders in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`.

[BEIR](https://arxiv.org/abs/2104.08663), and any collection that someone put into the same files.
"""

from __future__ import annotations

from pathlib import Path

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, Query, language_of_name
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.collections.tables import find_file, read_judgements, read_objects
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
# Their queries stand in the corpus too.
_QUERIES_ARE_DOCUMENTS = ("arguana", "quora")


def is_beir(folder: Path) -> bool:
    """Whether `folder` has BEIR's files."""
    return (
        all(find_file(folder, name) for name in ("corpus.jsonl", "queries.jsonl"))
        and (folder / "qrels").is_dir()
    )


def load_beir(folder: Path, split: str | None = None, collection: str = "") -> Dataset:
    """Loads one folder.

    Args:
        folder: The folder.
        split: Which judgements; `test` if not given, or `dev` where there is no test (and for MS MARCO,
            whose test judgements are another task's).
        collection: The collection it was found in, if any.
    """
    known = folder.name in (*BEIR_13, MS_MARCO)
    language = "en" if known else language_of_name(folder.name)
    if language == folder.name:  # a language alone says nothing without what it is the language of
        collection = folder.parent.name
    name = f"{collection}/{folder.name}" if collection and not known else folder.name
    split_file = _judgements_file(folder, split)
    judgements = read_judgements(split_file)
    queries, unjudged = [], 0
    for record in read_objects(_required(folder, "queries.jsonl"), ("_id", "text")):
        identifier = str(record["_id"])
        if identifier in judgements:
            query_language = record.get("language") or language
            queries.append(Query(identifier, str(record["text"]), query_language))
        else:
            unjudged += 1
    with_text = {query.id for query in queries}
    languages = {query.language for query in queries}
    return Dataset(
        name=name,
        queries=tuple(queries),
        judgements={query: grades for query, grades in judgements.items() if query in with_text},
        corpus=CorpusReader(folder, language),
        collection="BEIR" if known else collection,
        in_average=folder.name != MS_MARCO,
        language=languages.pop() if len(languages) == 1 else UNKNOWN_LANGUAGE,
        ignores_own_document=known and folder.name in _QUERIES_ARE_DOCUMENTS,
        unjudged_queries=unjudged,
        unknown_queries=len(judgements) - len(with_text),
    )


def _judgements_file(folder: Path, split: str | None) -> Path:
    preferred = ("dev", "test") if folder.name == MS_MARCO else ("test", "dev")
    for candidate in (split,) if split else preferred:
        if found := find_file(folder / "qrels", f"{candidate}.tsv"):
            return found
    there = ", ".join(sorted(path.name for path in (folder / "qrels").iterdir())) or "none"
    raise InputError(
        f"The dataset has no judgements of the split {split or 'test'!r}; choose one that it has ({there}). "
        f"Received: {str(folder)!r}."
    )


def _required(folder: Path, name: str) -> Path:
    found = find_file(folder, name)
    if found is None:
        raise InputError(f"A BEIR folder has the file {name}. Received: {str(folder)!r}.")
    return found

"""Queries, documents and judgements, from whatever layout of files; and examples made of them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.lines import read_lines
from xtr_tf.errors import InputError
from xtr_tf.training.data.examples import Document, TrainingExample, first_value, require_utf8


@dataclasses.dataclass(frozen=True)
class JudgedCollection:
    """A test collection.

    Attributes:
        name: Tells collections apart.
        queries: Text of each query by id.
        languages: Language of each query by id.
        documents: Documents by id.
        judgements: Grade of each judged document, by query id and document id; 0 or less means
            that it does not answer the query.
    """

    name: str
    queries: dict[str, str]
    languages: dict[str, str]
    documents: dict[str, Document]
    judgements: dict[str, dict[str, int]]

    def examples(self, bad_records: BadRecords) -> JudgedSource:
        """Training examples, one for each query with a positive."""
        return JudgedSource(self, bad_records)


class JudgedSource:
    """Training examples by number from a collection: graded documents are positives, the others negatives.

    Args:
        collection: The collection, whose documents include all judged ones.
        bad_records: Told of judgements whose query or document is not there.
    """

    def __init__(self, collection: JudgedCollection, bad_records: BadRecords) -> None:
        self.name = collection.name
        self._collection = collection
        self._examples: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        for number, (query_id, grades) in enumerate(collection.judgements.items(), start=1):
            if query_id not in collection.queries:
                bad_records.skip(collection.name, number, f"query {query_id!r} is judged, but absent")
                continue
            missing = [document_id for document_id in grades if document_id not in collection.documents]
            for document_id in missing:
                bad_records.skip(
                    collection.name, number, f"document {document_id!r} of query {query_id!r} is absent"
                )
            known = {key: grade for key, grade in grades.items() if key not in missing}
            positives = tuple(key for key, grade in known.items() if grade > 0)
            negatives = tuple(key for key, grade in known.items() if grade <= 0)
            if positives:
                self._examples.append((query_id, positives, negatives))
        self.languages = np.array([collection.languages[example[0]] for example in self._examples], dtype=str)
        self.max_positives = max((len(positives) for _, positives, _ in self._examples), default=1)

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> TrainingExample:
        query_id, positives, negatives = self._examples[index]
        documents = self._collection.documents
        return TrainingExample(
            id=query_id,
            query=self._collection.queries[query_id],
            positives=tuple(documents[key] for key in positives),
            negatives=tuple(documents[key] for key in negatives),
            language=self._collection.languages[query_id],
        )


Judgements = dict[str, dict[str, int]]
_SUFFIXES = ("", ".gz", ".xz", ".bz2")


def read_beir(
    folder: Path, split: str, language: str, whole_corpus: bool, bad_records: BadRecords
) -> list[JudgedCollection]:
    """Reads a BEIR folder: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`.

    A `language` field of a query overrides `language`.
    """
    judgements = _read_judgements(_find(folder, f"qrels/{split}.tsv"), bad_records)
    queries, languages = {}, {}
    path = _find(folder, "queries.jsonl")
    for number, query_id, record in _read_objects(path, bad_records):
        text = record.get("text")
        if query_id not in judgements or not isinstance(text, str):
            continue
        try:
            require_utf8("the query", text)
        except ValueError as error:
            bad_records.skip(path, number, str(error))
            continue
        queries[query_id] = text
        languages[query_id] = str(record.get("language") or language)
    documents = _read_corpus([_find(folder, "corpus.jsonl")], judgements, whole_corpus, bad_records)
    return [JudgedCollection(str(folder), queries, languages, documents, judgements)]


def read_ms_marco(
    folder: Path, split: str, language: str, whole_corpus: bool, bad_records: BadRecords
) -> list[JudgedCollection]:
    """Reads MS MARCO passage ranking: `collection.tsv`, `queries.SPLIT.tsv`, `qrels.SPLIT.tsv`.

    Hard negatives come from `qidpidtriples.SPLIT*.tsv` (query, positive, negative ids), and
    from `*hard-negatives*.jsonl*` with objects `{"qid", "neg": {"system": [ids]}}`, where there.
    """
    judgements = _read_judgements(_find(folder, f"qrels.{split}.tsv"), bad_records)
    for path in sorted(folder.glob(f"qidpidtriples.{split}*.tsv*")):
        for number, fields in _read_fields(path, 3, bad_records):
            _add_negative(judgements, fields[0], fields[2], path, number, bad_records)
    for path in sorted(folder.glob("*hard-negatives*.jsonl*")):
        for number, line in read_lines(path):
            for query_id, document_id in _mined_negatives(line, path, number, bad_records):
                if query_id in judgements:
                    judgements[query_id].setdefault(document_id, 0)
    queries = {
        fields[0]: fields[1]
        for _, fields in _read_fields(_find(folder, f"queries.{split}.tsv"), 2, bad_records)
        if fields[0] in judgements
    }
    wanted = None if whole_corpus else _judged(judgements)
    documents = {
        fields[0]: Document(fields[0], "", fields[1])
        for _, fields in _read_fields(_find(folder, "collection.tsv"), 2, bad_records)
        if wanted is None or fields[0] in wanted
    }
    return [JudgedCollection(str(folder), queries, dict.fromkeys(queries, language), documents, judgements)]


def read_miracl(
    folder: Path, split: str, language: str, whole_corpus: bool, bad_records: BadRecords
) -> list[JudgedCollection]:
    """Reads MIRACL: for each language a topics file, a qrels file with negatives, and a corpus.

    The files may lie anywhere below `folder`: `topics.miracl-*-LANG-SPLIT.tsv`,
    `qrels.miracl-*-LANG-SPLIT.tsv`, and `*corpus*-LANG/docs*.jsonl*`. Unless `language` is
    `und`, only that language is read.
    """
    collections = []
    pattern = re.compile(rf"topics\.miracl-.*-([a-z]+)-{re.escape(split)}\.tsv")
    for topics in sorted(folder.rglob("topics.miracl-*.tsv")):
        match = pattern.fullmatch(topics.name)
        if match is None or language not in ("und", match[1]):
            continue
        qrels_name = topics.name.replace("topics.", "qrels.", 1)
        qrels = next(iter(sorted(folder.rglob(qrels_name))), None)
        corpus = sorted(folder.rglob(f"*corpus*-{match[1]}/docs*.jsonl*"))
        if qrels is None or not corpus:
            wanted_name = qrels_name if qrels is None else f"*corpus*-{match[1]}/docs*.jsonl"
            raise InputError(f"A MIRACL folder lacks {wanted_name}. Received: {str(folder)!r}.")
        judgements = _read_judgements(qrels, bad_records)
        queries = {
            fields[0]: fields[1]
            for _, fields in _read_fields(topics, 2, bad_records)
            if fields[0] in judgements
        }
        documents = _read_corpus(corpus, judgements, whole_corpus, bad_records)
        name = f"{folder}/{match[1]}"
        collections.append(
            JudgedCollection(name, queries, dict.fromkeys(queries, match[1]), documents, judgements)
        )
    if not collections:
        raise InputError(
            f"No MIRACL topics of split {split!r} lie below the folder. Received: {str(folder)!r}."
        )
    return collections


def _find(folder: Path, name: str) -> Path:
    for suffix in _SUFFIXES:
        if (path := folder / f"{name}{suffix}").is_file():
            return path
    raise InputError(f"The folder lacks {name}; check its layout. Received: {str(folder)!r}.")


def _read_fields(path: Path, count: int, bad_records: BadRecords) -> Iterator[tuple[int, list[str]]]:
    """Lines of at least `count` fields, separated by tabs."""
    for number, line in read_lines(path):
        try:
            fields = line.decode("utf-8").split("\t")
        except UnicodeDecodeError:
            bad_records.skip(path, number, "the line is not UTF-8")
            continue
        if len(fields) < count or not fields[0]:
            bad_records.skip(path, number, f"the line has fewer than {count} fields separated by tabs")
            continue
        yield number, fields


def _read_judgements(path: Path, bad_records: BadRecords) -> Judgements:
    """Reads `query document grade`, with or without a header, or TREC's `query 0 document grade`."""
    judgements: Judgements = {}
    for number, line in read_lines(path):
        fields = line.decode("utf-8", errors="replace").split()
        grade = fields[-1].removesuffix(".0") if len(fields) in (3, 4) else ""
        if not grade.lstrip("-").isdigit():
            if number > 1:
                bad_records.skip(path, number, "the line is not `query document grade`")
            continue
        judgements.setdefault(fields[0], {})[fields[-2]] = int(grade)
    return judgements


def _read_objects(path: Path, bad_records: BadRecords) -> Iterator[tuple[int, str, dict[str, object]]]:
    """Line numbers and JSON objects with their `_id`, `id` or `docid`."""
    for number, line in read_lines(path):
        try:
            record = json.loads(line)
        except ValueError as error:
            bad_records.skip(path, number, f"the line is not JSON ({error})")
            continue
        identity = _identity(record)
        if identity is None:
            bad_records.skip(path, number, "the object has no `_id`")
            continue
        yield number, identity, record


def _identity(record: object) -> str | None:
    return first_value(record, "_id", "id", "docid") or None if isinstance(record, dict) else None


def _read_corpus(
    paths: Iterable[Path], judgements: Judgements, whole_corpus: bool, bad_records: BadRecords
) -> dict[str, Document]:
    wanted = None if whole_corpus else _judged(judgements)
    documents = {}
    for path in paths:
        for number, identity, record in _read_objects(path, bad_records):
            if wanted is not None and identity not in wanted:
                continue
            try:
                document = Document.from_json({**record, "score": None})
            except ValueError as error:
                bad_records.skip(path, number, str(error))
                continue
            documents[identity] = document._replace(id=identity)
    return documents


def _judged(judgements: Judgements) -> set[str]:
    return {document_id for grades in judgements.values() for document_id in grades}


def _add_negative(
    judgements: Judgements, query_id: str, document_id: str, path: Path, number: int, bad: BadRecords
) -> None:
    if query_id not in judgements:
        bad.skip(path, number, f"query {query_id!r} has no judgements")
        return
    judgements[query_id].setdefault(document_id, 0)


def _mined_negatives(line: bytes, path: Path, number: int, bad_records: BadRecords) -> list[tuple[str, str]]:
    try:
        record = json.loads(line)
        systems = record["neg"].values()
        return [(str(record["qid"]), str(key)) for found in systems for key in found]
    except (ValueError, KeyError, TypeError, AttributeError):
        bad_records.skip(path, number, "the line is not an object with `qid` and `neg`")
        return []


READERS: dict[str, Callable[[Path, str, str, bool, BadRecords], list[JudgedCollection]]] = {
    "beir": read_beir,
    "ms_marco": read_ms_marco,
    "miracl": read_miracl,
}

"""Reads the documents of a corpus in any format, in a fixed order, and checks them.

Knows nothing about encoding.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from xtr_tf.collections.bad_records import OnBadRecord, ignore
from xtr_tf.collections.compression import COMPRESSIONS, find_file, uncompressed_suffix
from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document, id_field
from xtr_tf.collections.fields import Fields, check_fields, read_fields
from xtr_tf.collections.records import READERS, SELF_COMPRESSED
from xtr_tf.errors import InputError

# Name of the corpus in a folder that also has queries and judgements: in BEIR, and in MS MARCO and LoTTE.
_NAMES = ("corpus.jsonl", "collection.tsv")


class Corpus(Protocol):
    """Documents in a fixed order, with counts of skipped records: a `CorpusReader` or `GivenDocuments`.

    Attributes:
        skipped: Number of records skipped so far, by reason.
        first_skipped: Position of the first skipped record, by reason.
    """

    @property
    def skipped(self) -> Mapping[str, int]:
        """Number of records skipped so far, by reason."""
        ...

    @property
    def first_skipped(self) -> Mapping[str, str]:
        """Position of the first skipped record, by reason."""
        ...

    def __iter__(self) -> Iterator[Document]: ...


class CorpusReader:
    """Iterates over the documents of a file, a folder, or the folder of a test collection.

    The suffix tells the format: `.jsonl` (or `.json`, also with one object per line), `.tsv`, `.parquet` or
    `.tfrecord`. The first two may be compressed as `.gz`, `.xz`, `.bz2` or `.zst`, the last as `.gz`. The
    files of a folder are read in the order of their names. If a folder has a `corpus.jsonl` or
    `collection.tsv`, only that file is read. `Document.from_fields` lists the fields of a document.

    A record that is not a document (invalid UTF-8 or JSON, no id, no text, a duplicate id) is skipped and
    counted. Of documents with the same id the first is kept. Remembering an id takes about 100 bytes of
    memory.

    Args:
        path: The file or folder.
        language: Language of documents that do not name one.
        on_bad: Called for skipped records.
        fields: Names and types of additional document fields; others are ignored.

    Attributes:
        files: The files to read, in order.
        skipped: Number of records skipped so far, by reason.
        first_skipped: Position of the first skipped record by reason, such as `corpus.jsonl:17`.

    Raises:
        InputError: In the constructor, if there is nothing to read or a field cannot be declared. While
            iterating, if a file is damaged or changes, or a declared field has a value of another type. At
            the end, if there were no documents.

    Example:
        >>> for document in CorpusReader("examples/atlas"):
        ...     print(document.id, document.title)
    """

    def __init__(
        self,
        path: str | Path,
        language: str = UNKNOWN_LANGUAGE,
        on_bad: OnBadRecord = ignore,
        fields: Fields | None = None,
    ) -> None:
        self.files = _find_files(Path(path))
        self.skipped: Counter[str] = Counter()
        self.first_skipped: dict[str, str] = {}
        self._language = language
        self._path = path
        self._on_bad = on_bad
        self._fields = dict(fields or {})
        check_fields(self._fields)
        self._only: Container[str] | None = None

    def only(self, ids: Container[str]) -> CorpusReader:
        """Returns this corpus reduced to the documents with these ids; other records are not checked."""
        reduced = copy.copy(self)
        reduced.skipped, reduced.first_skipped, reduced._only = Counter(), {}, ids
        return reduced

    def __iter__(self) -> Iterator[Document]:
        self.skipped.clear()
        self.first_skipped.clear()
        seen: set[bytes] = set()
        before = [_state(file) for file in self.files]
        for file in self.files:
            for number, fields in READERS[uncompressed_suffix(file)](file, self._skip, self._fields):
                try:
                    document = self._document(fields, seen)
                except InputError as error:
                    raise InputError(f"{file.name}, line {number}: {error}") from None
                except ValueError as error:
                    self._skip(file, number, str(error))
                    continue
                if document is not None:
                    yield document
        self._check_unchanged(before)
        if not seen and self._only is None:
            raise InputError(
                "The corpus has no document that can be encoded; check its files and field names. "
                f"Received: {str(self._path)!r} ({dict(self.skipped) or 'no records'})."
            )

    def records(self) -> Iterator[Mapping[str, Any]]:
        """Iterates over the raw records of all files, including those that are not documents."""
        for file in self.files:
            for _, fields in READERS[uncompressed_suffix(file)](file, ignore, self._fields):
                yield fields

    def _document(self, fields: Mapping[str, Any], seen: set[bytes]) -> Document | None:
        """Returns the document of a record, None if it is not wanted; raises `ValueError` if invalid."""
        identifier = id_field(fields)
        if not identifier:
            raise ValueError("no id")
        if self._only is not None and identifier not in self._only:
            return None
        document = Document.from_fields(fields, self._language)
        key = hashlib.blake2b(identifier.encode(), digest_size=16).digest()
        if key in seen:
            raise ValueError("duplicate id")
        seen.add(key)
        if not self._fields:
            return document
        return dataclasses.replace(document, fields=read_fields(fields, self._fields))

    def _skip(self, file: Path, number: int, reason: str) -> None:
        self.skipped[reason] += 1
        self.first_skipped.setdefault(reason, f"{file.name}:{number}")
        self._on_bad(file, number, reason)

    def _check_unchanged(self, before: list[tuple[int, int]]) -> None:
        for file, state in zip(self.files, before, strict=True):
            if _state(file) != state:
                raise InputError(
                    "The corpus changed while it was being read; wait until it is complete, then retry. "
                    f"Received: {str(file)!r}."
                )


def _find_files(path: Path) -> tuple[Path, ...]:
    if path.is_dir():
        for name in _NAMES:
            if found := find_file(path, name):
                return (found,)
        _refuse_other_files_of_a_collection(path)
        files = sorted(file for file in path.iterdir() if _is_known(file) and file.is_file())
    else:
        files = [path] if path.is_file() and _is_known(path) else []
    if not files:
        raise InputError(
            "A corpus is a .jsonl, .tsv, .parquet or .tfrecord file (the first two also compressed as "
            f"{', '.join(COMPRESSIONS)}), or a folder of them. "
            f"Received: {str(path)!r}{'' if path.exists() else ', which does not exist'}."
        )
    return tuple(files)


def _refuse_other_files_of_a_collection(folder: Path) -> None:
    """Refuses a folder whose files are queries or judgements, which have the same suffixes as documents."""
    others = sorted({*folder.glob("queries.*"), *folder.glob("qrels.*"), *folder.glob("qrels")})
    if others:
        raise InputError(
            f"The folder has queries or judgements, but no {' or '.join(_NAMES)} (plain or "
            f"{', '.join(COMPRESSIONS)}); put the corpus there, or name its file. "
            f"Received: {str(folder)!r}, which has {others[0].name}."
        )


def _is_known(path: Path) -> bool:
    suffix = uncompressed_suffix(path)
    return suffix in READERS and path.suffix in SELF_COMPRESSED.get(suffix, (suffix, *COMPRESSIONS))


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except FileNotFoundError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)

"""The documents of a corpus, whatever its files: found, read in one fixed order, checked, counted.

Knows nothing of encoding.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xtr_tf.collections.compression import COMPRESSIONS, uncompressed_suffix
from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.collections.records import ID_FIELDS, LANGUAGE_FIELDS, READERS, TEXT_FIELDS, BadRecord, Record
from xtr_tf.errors import InputError


class CorpusReader:
    """Iterates over the documents of a file, a folder or a BEIR folder.

    The format is told by the suffix: `.jsonl` (or `.json`, one object a line all the same), `.tsv`,
    `.parquet` or `.tfrecord`, the first two also with `.gz` or `.zst`, the last with `.gz`. The
    files of a folder are read in the order of their names; of a BEIR folder (one with
    `corpus.jsonl`) only that file. Fields are `_id` (or `id`, `docid`), `text` (or `contents`),
    `title` and `language` (or `lang`).

    A record that is no document (invalid UTF-8 or JSON, no id, no text, an id that has been
    seen) is left out and counted; of documents with one id the first stays. The ids seen take
    about 100 bytes of memory each.

    Args:
        path: The file or folder.
        language: Language of documents that do not name one.

    Attributes:
        files: What is read, in order.
        skipped: Records left out so far, by reason.
        first_skipped: Where the first one of each reason stands, such as `corpus.jsonl:17`.

    Raises:
        InputError: When made, if there is nothing to read; while iterating, if a file is damaged,
            or changes before the end of the iteration; at the end, if there were no documents.
    """

    def __init__(self, path: str | Path, language: str = UNKNOWN_LANGUAGE) -> None:
        self.files = _find_files(Path(path))
        self.skipped: Counter[str] = Counter()
        self.first_skipped: dict[str, str] = {}
        self._language = language
        self._path = path

    def __iter__(self) -> Iterator[Document]:
        self.skipped.clear()
        self.first_skipped.clear()
        seen: set[bytes] = set()
        before = [_state(file) for file in self.files]
        for file in self.files:
            reader = READERS[uncompressed_suffix(file)]
            for number, record in enumerate(reader(file), start=1):
                document = self._check(record, seen)
                if isinstance(document, BadRecord):
                    self.skipped[document.reason] += 1
                    self.first_skipped.setdefault(document.reason, f"{file.name}:{number}")
                else:
                    yield document
        self._check_unchanged(before)
        if not seen:
            raise InputError(
                "The corpus has no document that can be encoded; check its files and field names. "
                f"Received: {str(self._path)!r} ({dict(self.skipped) or 'no records'})."
            )

    def _check(self, record: Record, seen: set[bytes]) -> Document | BadRecord:
        document = record if isinstance(record, BadRecord) else self._document(record)
        if isinstance(document, BadRecord):
            return document
        try:
            key = hashlib.blake2b(document.id.encode(), digest_size=16).digest()
            document.full_text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
            return BadRecord("invalid UTF-8")
        if key in seen:
            return BadRecord("duplicate id")
        seen.add(key)
        return document

    def _document(self, fields: Any) -> Document | BadRecord:
        identifier = _first(fields, ID_FIELDS)
        if isinstance(identifier, int) and not isinstance(identifier, bool):
            identifier = str(identifier)
        text, title = _first(fields, TEXT_FIELDS), _first(fields, ("title",))
        language = _first(fields, LANGUAGE_FIELDS)
        if identifier is None or identifier == "":
            return BadRecord("no id")
        if not all(isinstance(value, str | None) for value in (identifier, text, title, language)):
            return BadRecord("a field is not a string")
        if not (text or "").strip() and not (title or "").strip():
            return BadRecord("empty")
        return Document(identifier, text or "", title or "", language or self._language)

    def _check_unchanged(self, before: list[tuple[int, int]]) -> None:
        for file, state in zip(self.files, before, strict=True):
            if _state(file) != state:
                raise InputError(
                    "The corpus changed while it was read; let its writer finish, then run this again. "
                    f"Received: {str(file)!r}."
                )


def _find_files(path: Path) -> tuple[Path, ...]:
    if path.is_dir():
        beir = [file for suffix in ("", *COMPRESSIONS) if (file := path / f"corpus.jsonl{suffix}").is_file()]
        files = beir[:1] or sorted(file for file in path.iterdir() if _is_known(file) and file.is_file())
    else:
        files = [path] if path.is_file() and _is_known(path) else []
    if not files:
        raise InputError(
            "A corpus is a .jsonl, .tsv, .parquet or .tfrecord file (.gz or .zst too), or a folder of them. "
            f"Received: {str(path)!r}{'' if path.exists() else ', which does not exist'}."
        )
    return tuple(files)


def _is_known(path: Path) -> bool:
    suffix = uncompressed_suffix(path)
    if suffix not in READERS:
        return False
    readable = {".parquet": (".parquet",), ".tfrecord": (".tfrecord", ".gz")}
    return path.suffix in readable.get(suffix, (suffix, *COMPRESSIONS))


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except FileNotFoundError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)


def _first(fields: Any, names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)

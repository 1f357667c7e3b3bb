"""The next version of a directory of token vectors: finds which documents change, and writes it.

Knows nothing about encoders, because new documents are already encoded, or about indexes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from xtr_tf.collections.corpus import Corpus
from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.vectors.manifest import ShardEntry, VectorsManifest
from xtr_tf.vectors.shard import CODES_FOLDER, ENTRY_FILE, Shard, ShardArrays, shard_name, write_shard
from xtr_tf.vectors.store import TokenVectors


@dataclasses.dataclass(frozen=True)
class DocumentChanges:
    """Which documents stay and which are new. New documents follow those that stay.

    Attributes:
        kept: `[documents of the base]` bool, which documents stay.
        taken: `[added documents]` bool, false for documents that are the same in the base.
        added: Number of new ids.
        replaced: Number of ids whose document has changed.
        deleted: Number of deleted ids.
        unchanged: Number of added documents that are the same in the base.
        unknown: Ids to delete that are not in the base.
    """

    kept: np.ndarray
    taken: np.ndarray
    added: int
    replaced: int
    deleted: int
    unchanged: int
    unknown: tuple[str, ...]


def compare_documents(
    base: TokenVectors, added: TokenVectors | None, deleted_ids: Collection[str]
) -> DocumentChanges:
    """Compares documents by id, then by content, title, language and fields.

    An id that is both deleted and added is replaced.

    Args:
        base: The last version.
        added: New and changed documents, encoded; None for none.
        deleted_ids: Ids of documents to delete.

    Returns:
        Which documents stay, are new or are deleted.

    Raises:
        InputError: If no document would be left.
    """
    arriving = {} if added is None else {record.id: _identity(record) for record in added.documents()}
    leaving = set(deleted_ids)
    kept = np.ones(base.num_documents, bool)
    untouched: set[str] = set()
    replaced = deleted = 0
    known = set()
    for ordinal, record in enumerate(base.documents()):
        if record.id in leaving:
            known.add(record.id)
        if record.id in arriving:
            if record.id not in leaving and arriving[record.id] == _identity(record):
                untouched.add(record.id)
                continue
            replaced += 1
            kept[ordinal] = False
        elif record.id in leaving:
            deleted += 1
            kept[ordinal] = False
    taken = np.array([identifier not in untouched for identifier in arriving], bool)
    if not kept.any() and not taken.any():
        raise InputError(
            "A refresh must leave at least one document; add some, or delete fewer. "
            f"Received: {deleted} deletions of {base.num_documents} documents."
        )
    return DocumentChanges(
        kept=kept,
        taken=taken,
        added=int(taken.sum()) - replaced,
        replaced=replaced,
        deleted=deleted,
        unchanged=len(untouched),
        unknown=tuple(sorted(leaving - known)),
    )


class ChangedDocuments:
    """The documents of a corpus that are new, or not the same in the last version.

    Args:
        corpus: The corpus.
        base: The last version.
        deleted_ids: Ids whose documents in the last version do not stay.

    Attributes:
        present: Ids of all documents of the corpus that were read so far.
    """

    def __init__(self, corpus: Corpus, base: TokenVectors, deleted_ids: Collection[str] = ()) -> None:
        self.present: set[str] = set()
        self._corpus = corpus
        self._known = {record.id: _identity(record) for record in base.documents()}
        for identifier in deleted_ids:
            self._known.pop(identifier, None)

    @property
    def skipped(self) -> Mapping[str, int]:
        """Number of records skipped so far, by reason."""
        return self._corpus.skipped

    @property
    def first_skipped(self) -> Mapping[str, str]:
        """Position of the first skipped record, by reason."""
        return self._corpus.first_skipped

    def __iter__(self) -> Iterator[Document]:
        for document in self._corpus:
            self.present.add(document.id)
            if self._known.get(document.id) != _identity(DocumentRecord.of(document)):
                yield document


def _identity(record: DocumentRecord) -> tuple[object, ...]:
    return (record.content_hash, record.title, record.language, record.fields)


def update_vectors(
    base: TokenVectors, added: TokenVectors | None, changes: DocumentChanges, out: str | Path
) -> TokenVectors:
    """Writes the documents that stay, then the new ones.

    Codes that were stored in place of vectors are not copied if the documents stay: the last index has them.

    Shards from which no document is removed share their files with the old directory by hard links. The files
    are copied if the file system has no hard links. Files are never changed after they are written. If the
    last version is remote, the new directory has the addresses of these files instead: copy them there.

    Args:
        base: The last version.
        added: New and changed documents, encoded as the base was; None for none.
        changes: The result of `compare_documents`.
        out: A new directory, which appears when it is complete.

    Returns:
        The opened directory.

    Raises:
        InputError: If `out` exists, or if the vectors of `added` were made by another encoder or with other
            settings than those of `base`.
    """
    out = Path(out)
    if out.exists():
        raise InputError(f"A refresh makes a new directory; choose another name. Received: {str(out)!r}.")
    if added is not None:
        check_same_origin(base, added)
    parts = [(shard, kept, False) for shard, kept in _parts(base, changes.kept)]
    if added is not None:
        parts += [(shard, kept, True) for shard, kept in _parts(added, changes.taken)]
    with atomic_directory(out) as folder:
        entries = tuple(
            _write(shard, kept, folder, shard_name(index, len(parts)), is_new)
            for index, (shard, kept, is_new) in enumerate(parts)
        )
        dataclasses.replace(base.manifest, shards=entries, skipped={}).write(folder)
    return TokenVectors.open(out)


def check_same_origin(base: TokenVectors, added: TokenVectors) -> None:
    """Checks that two directories of token vectors were made by the same encoder in the same way.

    Args:
        base: The directory to update.
        added: The documents to add.

    Raises:
        InputError: If the encoder, settings or fields differ.
    """

    def origin(manifest: VectorsManifest) -> tuple[object, ...]:
        return (
            manifest.encoder_fingerprint,
            manifest.dim,
            manifest.dtype,
            dict(manifest.settings),
            dict(manifest.fields),
        )

    if base.encoder_fingerprint != added.encoder_fingerprint:
        raise InputError(
            "Documents can be added only with the encoder of the others; encode them with it. "
            f"Received: encoder {added.encoder_fingerprint[:12]} instead of {base.encoder_fingerprint[:12]}."
        )
    if origin(base.manifest) != origin(added.manifest):
        raise InputError(
            "Documents can be added only if they were split, pruned and stored as the others, with the same "
            "fields; encode them again. "
            f"Received: {origin(added.manifest)[1:]} instead of {origin(base.manifest)[1:]}."
        )


def _parts(corpus: TokenVectors, kept: np.ndarray) -> Iterator[tuple[Shard, np.ndarray]]:
    """Yields the shards in which documents stay, each with `[documents]` bool."""
    limits = np.cumsum([shard.entry.documents for shard in corpus.shards])
    for shard, mask in zip(corpus.shards, np.split(kept, limits[:-1]), strict=True):
        if mask.any():
            yield shard, mask


def _write(shard: Shard, kept: np.ndarray, directory: Path, name: str, is_new: bool) -> ShardEntry:
    if kept.all():
        return _link(shard, directory / name, with_codes=is_new)
    key = hashlib.sha256(f"{shard.entry.key} without {np.flatnonzero(~kept).tolist()}".encode())
    entry = shard.entry
    return write_shard(
        *(directory, name, _select(shard, kept), entry.dtype, key.hexdigest()),
        code=None if shard.has_vectors else _no_codes,
    )


def _no_codes(folder: Path, vectors: np.ndarray) -> None:
    """Stores neither vectors nor codes."""


def _link(shard: Shard, folder: Path, with_codes: bool) -> ShardEntry:
    files = {
        name: file
        for name, file in shard.entry.files.items()
        if with_codes or not name.startswith(f"{CODES_FOLDER}/")
    }
    entry = dataclasses.replace(shard.entry, name=folder.name, files=files, counters={})
    with atomic_directory(folder) as unfinished:
        for name in entry.files:
            (unfinished / name).parent.mkdir(exist_ok=True)
            shard.files.link(name, unfinished / name)
        (unfinished / ENTRY_FILE).write_text(json.dumps(dataclasses.asdict(entry), indent=1))
    return entry


def _select(shard: Shard, kept: np.ndarray) -> ShardArrays:
    passages = kept[shard.passage_documents]
    tokens = np.repeat(passages, shard.passage_tokens)
    renumbered = (np.cumsum(kept) - 1).astype(np.int32)
    return ShardArrays(
        documents=[record for record, stays in zip(shard.documents(), kept, strict=True) if stays],
        vectors=shard.vectors[tokens] if shard.has_vectors else np.zeros((tokens.sum(), shard.entry.dim)),
        pieces=shard.pieces[tokens],
        spans=shard.spans[tokens],
        positions=shard.positions[tokens],
        passage_tokens=shard.passage_tokens[passages],
        passage_documents=renumbered[shard.passage_documents[passages]],
    )

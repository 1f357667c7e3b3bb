"""What a refresh changes, document by document. Knows ids and content, no vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from xtr_tf.corpus.document import DocumentRecord
from xtr_tf.corpus.token_vectors import TokenVectors
from xtr_tf.errors import InputError


@dataclasses.dataclass(frozen=True)
class DocumentChanges:
    """Which documents stay and which come; those that come stand after those that stay.

    Attributes:
        kept: `[documents of the base]` bool.
        taken: `[added documents]` bool, false for those the base has as they are.
        added: Number of new ids.
        replaced: Number of ids whose document is another one now.
        deleted: Number of ids deleted.
        unchanged: Number of added documents that the base has as they are.
        unknown: Ids to delete that the base does not have.
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
    """Compares by id, then by content, title and language.

    An id that is both deleted and added is replaced.

    Args:
        base: The last version.
        added: New and changed documents, encoded.
        deleted_ids: Of documents to leave out.

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


def _identity(record: DocumentRecord) -> tuple[str, str, str]:
    return (record.content_hash, record.title, record.language)

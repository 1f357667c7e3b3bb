"""Distributes the documents of a job to shards, before anything is encoded.

The corpus is read once, in order, into a work folder inside the output directory. After that, the job depends
only on this snapshot. So ordinals are the same with every runner, and any worker can encode a shard at any
time. Reading is a small part of a job: hundreds of documents are read in the time that it takes to encode
one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically, writing
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.shard import shard_name
from xtr_tf.vectors.store import TokenVectors

#: The folder of a job's plan, which is removed at the end.
WORK_FOLDER = "work"
#: The folder for what is needed to read codes, in a directory that has them in place of vectors.
CODING_FOLDER = "coding"
_PLAN_FILE = "plan.json"


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """The plan of one shard.

    Attributes:
        index: Its position among the shards, from 0.
        name: Its folder when it is finished.
        key: Hash of its documents, the encoder and the settings.
        documents: Number of documents.
    """

    index: int
    name: str
    key: str
    documents: int


class EncodingPlan:
    """Writes the work folder of a job.

    Args:
        directory: The output directory.
        identity: The encoder and the settings, which together with the documents determine the content of a
            shard.
        shard_characters: Characters per shard. A shard ends with the document that reaches this number.
    """

    def __init__(self, directory: Path, identity: Mapping[str, Any], shard_characters: int) -> None:
        self._folder = directory / WORK_FOLDER
        self._identity = json.dumps(identity, sort_keys=True).encode()
        self._shard_characters = shard_characters

    def write(self, documents: Iterable[Document], reuse: Reuse | None) -> list[ShardPlan]:
        """Distributes the documents to shards.

        Args:
            documents: The corpus.
            reuse: An earlier directory, from which vectors of unchanged texts are copied; None for none.

        Returns:
            The shards, in order.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        written = []
        for index, records in enumerate(self._cut(documents)):
            digest = hashlib.sha256(self._identity)
            path = documents_file(self._folder, index)
            with writing(path), path.open("wb") as file:
                for record in records:
                    line = record.to_json().encode() + b"\n"
                    digest.update(line)
                    file.write(line)
            if reuse is not None:
                ordinals = reuse.ordinals([record.content_hash for record in records])
                np.save(reuse_file(self._folder, index), ordinals)
            written.append((digest.hexdigest(), len(records)))
        shards = [
            ShardPlan(index, shard_name(index, len(written)), key, count)
            for index, (key, count) in enumerate(written)
        ]
        content = json.dumps([dataclasses.astuple(shard) for shard in shards])
        write_atomically(self._folder / _PLAN_FILE, content.encode())
        return shards

    def remove(self) -> None:
        """Removes the work folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _cut(self, documents: Iterable[Document]) -> Iterator[list[DocumentRecord]]:
        records: list[DocumentRecord] = []
        characters = 0
        for document in documents:
            records.append(DocumentRecord.of(document))
            characters += len(document.full_text)
            if characters >= self._shard_characters:
                yield records
                records, characters = [], 0
        if records:
            yield records


def read_plan(folder: Path) -> list[ShardPlan]:
    """Returns the plans of all shards, finished or not.

    Args:
        folder: The work folder.

    Returns:
        The shards, in order.
    """
    return [ShardPlan(*fields) for fields in json.loads((folder / _PLAN_FILE).read_bytes())]


def planned_documents(folder: Path, index: int) -> list[DocumentRecord]:
    """Reads the planned documents of a shard.

    Args:
        folder: The work folder.
        index: Position of the shard.

    Returns:
        The documents, with their texts.
    """
    with documents_file(folder, index).open(encoding="utf-8") as file:
        return [DocumentRecord.from_json(line) for line in file]


def documents_file(folder: Path, index: int) -> Path:
    """Returns the path of a shard's planned documents, which are records with their texts.

    Args:
        folder: The work folder.
        index: Position of the shard.

    Returns:
        The path.
    """
    return folder / f"documents-{index:05d}.jsonl"


def reuse_file(folder: Path, index: int) -> Path:
    """Returns the path of the ordinals in the earlier directory, for the documents of a shard.

    The file has `[documents]` int64, -1 for documents that must be encoded.

    Args:
        folder: The work folder.
        index: Position of the shard.

    Returns:
        The path.
    """
    return folder / f"reuse-{index:05d}.npy"


class Reuse:
    """Finds documents in an earlier directory by the hash of their text.

    Uses 40 bytes of memory per document.

    Args:
        directory: The earlier directory.
        encoder_fingerprint: Fingerprint of the current encoder.
        settings: Current settings of vectors.

    Raises:
        InputError: If the earlier vectors were made by another encoder or with other settings, or were not
            kept.
    """

    def __init__(self, directory: Folder, encoder_fingerprint: str, settings: Mapping[str, Any]) -> None:
        self.corpus = TokenVectors.open(directory)
        manifest = self.corpus.manifest
        if not self.corpus.has_vectors:
            raise InputError(
                "Vectors can be reused only if they were kept; encode without reuse. "
                f"Received: {directory.address!r}."
            )
        if manifest.encoder_fingerprint != encoder_fingerprint:
            raise InputError(
                "Vectors can be reused only with the encoder that made them; encode without reuse. "
                f"Received: {directory.address!r} of encoder {manifest.encoder_fingerprint[:12]}, "
                f"encoder {encoder_fingerprint[:12]}."
            )
        if manifest.settings != settings:
            changed = sorted(
                name
                for name in {*manifest.settings, *settings}
                if manifest.settings.get(name) != settings.get(name)
            )
            raise InputError(
                "Vectors can be reused only with the settings that made them; encode without reuse. "
                f"Received: {directory.address!r}, which differs in {', '.join(changed)}."
            )

    def ordinals(self, content_hashes: Sequence[str]) -> np.ndarray:
        """Returns the ordinals of texts in the earlier directory.

        Args:
            content_hashes: Hashes of the texts.

        Returns:
            `[len(content_hashes)]` int64, -1 for texts that are not there.
        """
        hashes, order = self._sorted_hashes
        wanted = np.array(content_hashes, "S32")
        found = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        return np.where(hashes[found] == wanted, order[found], -1)

    @cached_property
    def _sorted_hashes(self) -> tuple[np.ndarray, np.ndarray]:
        hashes = np.fromiter(
            (document.content_hash.encode() for document in self.corpus.documents()),
            "S32",
            count=self.corpus.num_documents,
        )
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

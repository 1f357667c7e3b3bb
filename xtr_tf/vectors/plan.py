"""The documents of a job, dealt out to shards: fixed before anything is encoded.

The corpus is read once, in order, into a work folder inside the output directory. From then on the
job depends only on that snapshot, so that ordinals are the same whatever runs the job, and a
shard can be encoded by any worker at any time. Reading is a small part of a job: hundreds of
documents are read in the time one is encoded.
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
from xtr_tf.files import writing
from xtr_tf.vectors.shard import shard_name
from xtr_tf.vectors.store import TokenVectors

WORK_FOLDER = "work"


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """One shard's share of the work.

    Attributes:
        index: Its place among the shards.
        name: Its folder when finished.
        key: Hash of its documents, the encoder and the settings.
        documents: How many there are.
    """

    index: int
    name: str
    key: str
    documents: int


class EncodingPlan:
    """Writes and reads the work folder of a job.

    Args:
        directory: The output directory.
        identity: What, besides the documents, decides a shard's content: encoder and settings.
        shard_characters: Text of a shard; it ends with the document that reaches this.
    """

    def __init__(self, directory: Path, identity: Mapping[str, Any], shard_characters: int) -> None:
        self._folder = directory / WORK_FOLDER
        self._identity = json.dumps(identity, sort_keys=True).encode()
        self._shard_characters = shard_characters

    def write(self, documents: Iterable[Document], reuse: Reuse | None) -> list[ShardPlan]:
        """Deals out the documents.

        Args:
            documents: The corpus.
            reuse: An earlier directory's vectors to copy where they still hold.

        Returns:
            The shards in their order.
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
        return [
            ShardPlan(index, shard_name(index, len(written)), key, count)
            for index, (key, count) in enumerate(written)
        ]

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


def documents_file(folder: Path, index: int) -> Path:
    """The planned documents of a shard: records with their texts."""
    return folder / f"documents-{index:05d}.jsonl"


def reuse_file(folder: Path, index: int) -> Path:
    """`[documents]` int64: ordinals in the earlier directory, -1 for what must be encoded."""
    return folder / f"reuse-{index:05d}.npy"


class Reuse:
    """Finds documents of an earlier directory by the hash of their text.

    Takes 40 bytes of memory per document.

    Args:
        directory: The earlier directory.
        encoder_fingerprint: Of the encoder now.
        settings: How vectors are made now.

    Raises:
        InputError: If the earlier vectors were made by another encoder or in another way.
    """

    def __init__(self, directory: Path, encoder_fingerprint: str, settings: Mapping[str, Any]) -> None:
        self.corpus = TokenVectors.open(directory)
        manifest = self.corpus.manifest
        if manifest.encoder_fingerprint != encoder_fingerprint:
            raise InputError(
                "Vectors can be reused only with the encoder that made them; encode without reuse. "
                f"Received: {str(directory)!r} of encoder {manifest.encoder_fingerprint[:12]}, "
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
                f"Received: {str(directory)!r}, which differs in {', '.join(changed)}."
            )

    def ordinals(self, content_hashes: Sequence[str]) -> np.ndarray:
        """`[len(content_hashes)]` int64: where each text was, or -1."""
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

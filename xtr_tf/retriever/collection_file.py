"""`collection.json`: which versions of which partitions answer together as one index.

Written last, when every partition is there, and replaced at once: who reads it never sees half a collection.
Needs no TensorFlow; servers read it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically

COLLECTION_FILE = "collection.json"
#: Folder with a copy of the file of every version; a rollback copies one of them back.
HISTORY = "collections"
FORMAT = "xtr-collection"
FORM = 1


@dataclasses.dataclass(frozen=True)
class PartitionEntry:
    """One partition.

    Attributes:
        path: Its model's base directory, next to the file.
        version: The version that belongs to the collection.
        fingerprint: Of its documents and their tokens; no two partitions have the same.
        documents: How many.
        tokens: How many.
        languages: Documents by language.
    """

    path: str
    version: int
    fingerprint: str
    documents: int
    tokens: int
    languages: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Collection:
    """Partitions that answer together, in the order of their documents.

    Attributes:
        version: Its number, which is that of all its partitions.
        encoder: Fingerprint of the encoder of all partitions.
        quantizer: Fingerprint of their leaves and codebooks.
        partitions: In the order of the corpus.
    """

    version: int
    encoder: str
    quantizer: str
    partitions: tuple[PartitionEntry, ...]

    @property
    def documents(self) -> int:
        """Documents of all partitions."""
        return sum(partition.documents for partition in self.partitions)

    @property
    def tokens(self) -> int:
        """Tokens of all partitions."""
        return sum(partition.tokens for partition in self.partitions)

    @property
    def languages(self) -> dict[str, int]:
        """Documents of all partitions by language."""
        names = sorted({name for partition in self.partitions for name in partition.languages})
        return {
            name: sum(partition.languages.get(name, 0) for partition in self.partitions) for name in names
        }

    def to_json(self) -> bytes:
        """What the file holds."""
        content = {
            "format": FORMAT,
            "form": FORM,
            **dataclasses.asdict(self),
            "documents": self.documents,
            "tokens": self.tokens,
            "languages": self.languages,
        }
        return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"

    def write(self, base: Path) -> Path:
        """Writes a copy for later, and then the file itself, whole or not at all."""
        text = self.to_json()
        (base / HISTORY).mkdir(exist_ok=True)
        for path in (base / HISTORY / f"{self.version}.json", base / COLLECTION_FILE):
            write_atomically(path, text)
        return path


def read_collection(path: Path) -> Collection:
    """Reads the file.

    Raises:
        InputError: There is none, or it is no collection's, or names a partition twice.
    """
    if not path.is_file():
        raise InputError(
            "There is no collection here; `xtr-tf export --partitions` writes one when all partitions are "
            f"there. Received: {str(path)!r}."
        )
    return parse_collection(path.read_bytes(), str(path))


def parse_collection(text: bytes, path: str) -> Collection:
    """Reads the content of a file.

    Args:
        text: The content.
        path: Where it lies, for messages.

    Raises:
        InputError: It is no collection's, or names a partition twice.
    """
    try:
        content = json.loads(text)
        if (content["format"], content["form"]) != (FORMAT, FORM):
            raise ValueError("another format")
        entries = tuple(PartitionEntry(**fields) for fields in content["partitions"])
        collection = Collection(
            int(content["version"]), str(content["encoder"]), str(content["quantizer"]), entries
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"This is not a collection that this version of xtr-tf can read ({error}); export it again. "
            f"Received: {path!r}."
        ) from None
    _check(collection, path)
    return collection


def _check(collection: Collection, path: str) -> None:
    if not collection.partitions:
        raise InputError(f"A collection needs at least one partition. Received: {path!r} with none.")
    seen: dict[str, int] = {}
    for number, partition in enumerate(collection.partitions):
        if partition.version != collection.version:
            raise InputError(
                f"All partitions of a collection have its version, {collection.version}; export it again. "
                f"Received: version {partition.version} of partition {number}."
            )
        if (other := seen.setdefault(partition.fingerprint, number)) != number:
            raise InputError(
                "Two partitions of a collection must not hold the same documents; export it again. "
                f"Received: partitions {other} and {number}."
            )

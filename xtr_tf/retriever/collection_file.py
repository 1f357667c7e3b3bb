"""`collection.json`: which versions of which partitions are searched together as one index.

It is written last, when every partition exists, and replaced atomically. So a reader never sees half a
collection. Needs no TensorFlow, because servers read it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically

COLLECTION_FILE = "collection.json"
#: Folder with a copy of the file for every version. A rollback copies one of them back.
HISTORY = "collections"
FORMAT = "xtr-collection"
FORM = 1


@dataclasses.dataclass(frozen=True)
class PartitionEntry:
    """One partition.

    Attributes:
        path: Base directory of its model, next to the file.
        version: Its version in the collection.
        fingerprint: Fingerprint of its documents and their tokens. No two partitions have the same.
        documents: Number of documents.
        tokens: Number of tokens.
        languages: Number of documents by language.
    """

    path: str
    version: int
    fingerprint: str
    documents: int
    tokens: int
    languages: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Collection:
    """Partitions that are searched together, in the order of their documents.

    Attributes:
        version: Its version number, which all of its partitions have.
        encoder: Fingerprint of the encoder of all partitions.
        quantizer: Fingerprint of their leaves and codebooks.
        partitions: The partitions, in the order of the corpus.
    """

    version: int
    encoder: str
    quantizer: str
    partitions: tuple[PartitionEntry, ...]

    @property
    def documents(self) -> int:
        """Number of documents in all partitions."""
        return sum(partition.documents for partition in self.partitions)

    @property
    def tokens(self) -> int:
        """Number of tokens in all partitions."""
        return sum(partition.tokens for partition in self.partitions)

    @property
    def languages(self) -> dict[str, int]:
        """Number of documents in all partitions, by language."""
        names = sorted({name for partition in self.partitions for name in partition.languages})
        return {
            name: sum(partition.languages.get(name, 0) for partition in self.partitions) for name in names
        }

    def to_json(self) -> bytes:
        """Returns the content of the file."""
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
        """Writes a copy for later, and then the file itself, each completely or not at all.

        Args:
            base: Folder of the collection.

        Returns:
            The path of the file.
        """
        text = self.to_json()
        (base / HISTORY).mkdir(exist_ok=True)
        for path in (base / HISTORY / f"{self.version}.json", base / COLLECTION_FILE):
            write_atomically(path, text)
        return path


def read_collection(path: Path) -> Collection:
    """Reads the file.

    Args:
        path: Path of the file.

    Returns:
        The collection.

    Raises:
        InputError: If it does not exist, is not a collection, or has a partition twice.
    """
    if not path.is_file():
        raise InputError(
            "There is no collection here; `xtr-tf export --partitions` writes one when all partitions are "
            f"there. Received: {str(path)!r}."
        )
    return parse_collection(path.read_bytes(), str(path))


def parse_collection(text: bytes, path: str) -> Collection:
    """Parses the content of a file.

    Args:
        text: The content.
        path: Path of the file, for messages.

    Returns:
        The collection.

    Raises:
        InputError: If it is not a collection, or has a partition twice.
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

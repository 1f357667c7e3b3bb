"""The metadata of a directory of token vectors: `manifest.json`, and the entry of one shard.

Knows names, counts and hashes. The arrays belong to `shard.py`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically

FORMAT = "xtr-token-vectors"
VERSION = 1
MANIFEST_FILE = "manifest.json"


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """Size and SHA-256 of a file.

    Attributes:
        bytes: Size in bytes.
        sha256: SHA-256 in hexadecimal.
    """

    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class ShardEntry:
    """One finished shard.

    Attributes:
        name: Its folder, such as `shard-00000-of-00010`.
        documents: Number of documents. Their ordinals continue those of the previous shards.
        passages: Number of passages.
        tokens: Number of token vectors.
        dim: Width of a token vector.
        dtype: `float16` or `bfloat16`.
        key: Hash of everything that the shard was made from. Equal keys mean equal content.
        files: Size and hash of each file, by name in the folder.
        counters: Counters of its encoding, such as documents reused or tokens pruned.
    """

    name: str
    documents: int
    passages: int
    tokens: int
    dim: int
    dtype: str
    key: str
    files: Mapping[str, FileEntry]
    counters: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ShardEntry:
        """Creates an entry from its fields, the inverse of `dataclasses.asdict`.

        Args:
            fields: Values by field name.

        Returns:
            The entry.
        """
        files = {name: FileEntry(**entry) for name, entry in fields["files"].items()}
        return cls(**{**fields, "files": files})


@dataclasses.dataclass(frozen=True)
class VectorsManifest:
    """The content of `manifest.json`. It is written last: without it, the directory is unfinished.

    Attributes:
        dim: Width of a token vector.
        dtype: `float16` or `bfloat16`.
        encoder_fingerprint: Fingerprint of the encoder and tokenizer that made the vectors.
        settings: How documents were split and pruned. Vectors depend only on these and the encoder.
        shards: The shards, in the order of the corpus.
        skipped: Number of records of the corpus that were left out, by reason.
        language: Language of documents that named none. It is in the file only if it is known.
        fields: Names and types of the additional fields of documents. They are in the file only if there are
            any.
    """

    dim: int
    dtype: str
    encoder_fingerprint: str
    settings: Mapping[str, Any]
    shards: tuple[ShardEntry, ...]
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    language: str = UNKNOWN_LANGUAGE
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def num_documents(self) -> int:
        """Number of documents in all shards."""
        return sum(shard.documents for shard in self.shards)

    @property
    def num_passages(self) -> int:
        """Number of passages in all shards."""
        return sum(shard.passages for shard in self.shards)

    @property
    def num_tokens(self) -> int:
        """Number of token vectors in all shards."""
        return sum(shard.tokens for shard in self.shards)

    def write(self, directory: Path) -> None:
        """Writes `manifest.json`, either completely or not at all.

        Args:
            directory: The directory of token vectors.
        """
        counts = {
            "num_documents": self.num_documents,
            "num_passages": self.num_passages,
            "num_tokens": self.num_tokens,
        }
        content = {"format": FORMAT, "version": VERSION, **counts, **dataclasses.asdict(self)}
        if self.language == UNKNOWN_LANGUAGE:
            del content["language"]
        if not self.fields:
            del content["fields"]
        write_atomically(directory / MANIFEST_FILE, json.dumps(content, indent=1).encode())

    @classmethod
    def read(cls, directory: Path) -> VectorsManifest:
        """Reads `manifest.json`.

        Args:
            directory: The directory of token vectors.

        Returns:
            The manifest.

        Raises:
            InputError: If the file is missing or damaged, or is of another format or version.
        """
        what, command = "directory of token vectors", "xtr-tf encode"
        return read_manifest_file(directory, FORMAT, VERSION, cls._parse, what, command)

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> VectorsManifest:
        for count in ("num_documents", "num_passages", "num_tokens"):
            content.pop(count)
        shards = tuple(ShardEntry.from_dict(fields) for fields in content.pop("shards"))
        return cls(shards=shards, **content)


Parsed = TypeVar("Parsed")

#: Descriptions of the formats of our directories.
_FORMATS = {"xtr-token-index": "a token index", "xtr-token-vectors": "a directory of token vectors"}


def read_manifest_file(
    directory: Path,
    format_: str,
    version: int,
    parse: Callable[[dict[str, Any]], Parsed],
    what: str,
    command: str,
) -> Parsed:
    """Reads the `manifest.json` of a directory that one of our commands wrote.

    Args:
        directory: The directory.
        format_: The format that the file must have.
        version: The only version that can be read.
        parse: Creates the result from the other fields.
        what: What the directory should be, for messages.
        command: The command that writes such a directory, for messages.

    Returns:
        The result of `parse`.

    Raises:
        InputError: If the file is missing or damaged, or is of another format or version.
    """
    path = directory / MANIFEST_FILE
    if not path.is_file():
        raise InputError(
            f"This is not a finished {what} (it has no {MANIFEST_FILE}); run `{command}` until it is done. "
            f"Received: {str(directory)!r}."
        )
    try:
        content = json.loads(path.read_bytes())
        found = content.pop("format"), content.pop("version")
        if found == (format_, version):
            return parse(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"The manifest of the {what} is damaged; run `{command}` again. "
            f"Received: {str(path)!r} ({type(error).__name__})."
        ) from error
    if found[0] != format_:
        raise InputError(
            f"A {what} is needed, as `{command}` writes it; this directory holds something else. "
            f"Received: {str(directory)!r}, {_FORMATS.get(found[0], repr(found[0]))}."
        )
    raise InputError(
        f"This {what} was written by another release (version {found[1]!r}; this one reads {version}); run "
        f"`{command}` again. Received: {str(directory)!r}."
    )

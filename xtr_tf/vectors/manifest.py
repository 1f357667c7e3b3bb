"""What a directory of token vectors says of itself: `manifest.json`, and the entry of one shard.

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
    """Size and SHA-256 of a file."""

    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class ShardEntry:
    """One finished shard.

    Attributes:
        name: Its folder, such as `shard-00000-of-00010`.
        documents: Number of documents, counted on from the shards before it.
        passages: Number of passages.
        tokens: Number of token vectors.
        dim: Width of a token vector.
        dtype: `float16` or `bfloat16`.
        key: Hash of everything the shard was made from; equal keys mean equal content.
        files: Name in the folder to size and hash.
        counters: What its encoding counted, such as documents reused or tokens pruned.
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
        """The inverse of `dataclasses.asdict`."""
        files = {name: FileEntry(**entry) for name, entry in fields["files"].items()}
        return cls(**{**fields, "files": files})


@dataclasses.dataclass(frozen=True)
class VectorsManifest:
    """The whole directory. It is written last: without it the directory is unfinished.

    Attributes:
        dim: Width of a token vector.
        dtype: `float16` or `bfloat16`.
        encoder_fingerprint: Of the encoder and tokenizer that made the vectors.
        settings: How documents were cut and pruned; with the encoder, all that vectors depend on.
        shards: In the order of the corpus.
        skipped: Records of the corpus that were left out, by reason.
        language: Of documents that named none. In the file only if it is known.
        fields: Names and types of the fields that documents have besides their own. In the file only if there
            are any.
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
        """Documents in all shards."""
        return sum(shard.documents for shard in self.shards)

    @property
    def num_passages(self) -> int:
        """Passages in all shards."""
        return sum(shard.passages for shard in self.shards)

    @property
    def num_tokens(self) -> int:
        """Token vectors in all shards."""
        return sum(shard.tokens for shard in self.shards)

    def write(self, directory: Path) -> None:
        """Writes `manifest.json`, whole or not at all."""
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
        """Reads `manifest.json`, refusing whatever is not one of ours."""
        what, command = "directory of token vectors", "xtr-tf encode"
        return read_manifest_file(directory, FORMAT, VERSION, cls._parse, what, command)

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> VectorsManifest:
        for count in ("num_documents", "num_passages", "num_tokens"):
            content.pop(count)
        shards = tuple(ShardEntry.from_dict(fields) for fields in content.pop("shards"))
        return cls(shards=shards, **content)


Parsed = TypeVar("Parsed")

#: What the formats of our directories are called.
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
        format_: What the file must name as its format.
        version: The only version that can be read.
        parse: Makes something of the other fields.
        what: Says what the directory should be.
        command: Says what makes such a directory.

    Returns:
        What `parse` made of it.

    Raises:
        InputError: There is no such file, or it is damaged, or of another format or version.
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

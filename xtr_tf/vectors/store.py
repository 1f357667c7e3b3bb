"""A finished directory of token vectors, which index builders, exporters and evaluations read.

    manifest.json               counts, type, encoder fingerprint, SHA-256 of every file
    shard-00000-of-00010/
      vectors.npy               [tokens, dim] float16, or bfloat16 as its bits in uint16
      pieces.npy                [tokens] int32
      spans.npy                 [tokens, 2] int32
      positions.npy             [tokens] int32
      passage_tokens.npy        [passages] int32
      passage_documents.npy     [passages] int32, counted from the first document of the shard
      documents.jsonl           id, title, language, content_hash and, unless left out, text
      shard.json                the entry of the shard in the manifest

A corpus that was encoded and coded in one pass has `part/`, the shard's part of the index, in place of
`vectors.npy`, and the leaves and codebooks of all parts in `coding/` (see `xtr_tf.index.one_pass`).

Vectors are memory-mapped: nothing here keeps more in memory than is requested.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.vectors.folders import Folder, folder_of
from xtr_tf.vectors.manifest import MANIFEST_FILE, VectorsManifest
from xtr_tf.vectors.shard import EncodedDocument, Shard, ShardArrays, shard_name, write_shard
from xtr_tf.vectors.token_lengths import TokenLengths


class TokenVectors:
    """The token vectors of a corpus. Open a directory with `TokenVectors.open`.

    Documents and tokens have ordinals from 0, without gaps, in the order of the corpus. They do not depend on
    the runner that wrote them.

    Attributes:
        files: The directory of token vectors.
        manifest: Its manifest.
        shards: The shards, in the order of the corpus.

    Example:
        >>> corpus = TokenVectors.open("out/vectors")
        >>> for vectors, documents in corpus.blocks(65_536):
        ...     codes = quantiser.encode(vectors)
    """

    def __init__(self, files: Folder, manifest: VectorsManifest, shards: Sequence[Shard]) -> None:
        self.files = files
        self.manifest = manifest
        self.shards = tuple(shards)
        self.num_documents = manifest.num_documents
        self.num_passages = manifest.num_passages
        self.num_tokens = manifest.num_tokens
        self.dim = manifest.dim
        self.dtype = manifest.dtype
        self.encoder_fingerprint = manifest.encoder_fingerprint
        self.token_lengths = TokenLengths.of_settings(manifest.settings)
        self._first_document = _starts([shard.entry.documents for shard in self.shards])
        self._first_token = _starts([shard.entry.tokens for shard in self.shards])

    @classmethod
    def open(cls, directory: str | Path | Folder) -> TokenVectors:
        """Opens a directory. File sizes, widths and types are checked, and hashes only by `verify`.

        Args:
            directory: The directory of token vectors. Files of a remote one are copied when they are read.

        Returns:
            The opened directory.

        Raises:
            InputError: If it is unfinished, damaged, or has shards of different runs.
        """
        files = folder_of(directory)
        manifest = VectorsManifest.read(files.file(MANIFEST_FILE).parent)
        for index, entry in enumerate(manifest.shards):
            expected = (shard_name(index, len(manifest.shards)), manifest.dim, manifest.dtype)
            if (entry.name, entry.dim, entry.dtype) != expected:
                raise InputError(
                    "A shard does not belong to this directory of token vectors; encode the corpus again. "
                    f"Received: {(entry.name, entry.dim, entry.dtype)} instead of {expected}."
                )
        return cls(files, manifest, [Shard(files.below(entry.name), entry) for entry in manifest.shards])

    @classmethod
    def write(
        cls,
        directory: str | Path,
        shards: Sequence[ShardArrays],
        encoder_fingerprint: str,
        dtype: str = "float16",
    ) -> TokenVectors:
        """Writes a directory of vectors that are already in memory, and opens it.

        This is for tests and for vectors from other sources. `xtr-tf encode` writes shard by shard.

        Args:
            directory: A new directory, or one to replace.
            shards: The arrays of each shard, in the order of the corpus; at least one.
            encoder_fingerprint: Fingerprint of the encoder that made the vectors.
            dtype: Type to store them as, `float16` or `bfloat16`.

        Returns:
            The opened directory.

        Raises:
            InputError: If the dtype is another one, or if a vector is not finite.
        """
        directory = Path(directory)
        entries = [
            write_shard(directory, shard_name(index, len(shards)), arrays, dtype)
            for index, arrays in enumerate(shards)
        ]
        VectorsManifest(entries[0].dim, dtype, encoder_fingerprint, {}, tuple(entries)).write(directory)
        return cls.open(directory)

    @property
    def directory(self) -> Path:
        """The directory of token vectors on this machine."""
        return self.files.path

    @property
    def has_vectors(self) -> bool:
        """Whether the vectors of all shards were kept."""
        return all(shard.has_vectors for shard in self.shards)

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields all tokens in order. A block ends where its shard ends.

        Args:
            size: Maximum number of tokens per block.

        Yields:
            `[tokens, dim]` float32 vectors and `[tokens]` int32 document ordinals.
        """
        for shard, first_document in zip(self.shards, self._first_document, strict=False):
            documents, vectors = shard.document_of_token, shard.map_vectors()
            for start in range(0, shard.entry.tokens, size):
                rows = slice(start, start + size)
                ordinals = documents[rows] + np.int32(first_document)
                yield vectors[rows].astype(np.float32), ordinals

    def part(self, first: int, last: int) -> TokenVectors:
        """Returns some consecutive shards as if they were the whole corpus.

        Args:
            first: Index of the first shard.
            last: Index of the shard after the last.

        Returns:
            Token vectors of these shards; ordinals begin at 0.
        """
        manifest = dataclasses.replace(self.manifest, shards=self.manifest.shards[first:last])
        return TokenVectors(self.files, manifest, self.shards[first:last])

    def shards_from(self, token: int) -> TokenVectors:
        """Returns the shards from a token to the end.

        Args:
            token: Ordinal of a token, which must be the first of its shard.

        Returns:
            Token vectors of these shards; ordinals begin at 0.
        """
        index = int(np.searchsorted(self._first_token, token))
        assert self._first_token[index] == token, "a part begins with a shard"
        return self.part(index, len(self.shards))

    def take(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the vectors of some tokens, in the given order. This is meant for samples.

        Args:
            tokens: `[count]` integers, token ordinals.

        Returns:
            `[count, dim]` float32.

        Raises:
            InputError: If an ordinal is out of range.
        """
        tokens = np.asarray(tokens)
        if len(tokens) and not (tokens.min() >= 0 and tokens.max() < self.num_tokens):
            raise InputError(
                f"Token ordinals must be from 0 to {self.num_tokens - 1}. "
                f"Received: {tokens.min()} to {tokens.max()}."
            )
        taken = np.empty((len(tokens), self.dim), np.float32)
        owners = np.searchsorted(self._first_token, tokens, side="right") - 1
        for owner in np.unique(owners):
            rows = np.flatnonzero(owners == owner)
            taken[rows] = self.shards[owner].map_vectors()[tokens[rows] - self._first_token[owner]]
        return taken

    def locate(self, document: int) -> tuple[Shard, int]:
        """Returns the shard of a document, and the index of the document in it.

        Args:
            document: Ordinal of the document.

        Returns:
            The shard, and the index.
        """
        index = int(np.searchsorted(self._first_document, document, side="right")) - 1
        return self.shards[index], document - int(self._first_document[index])

    def encoded_document(self, document: int) -> EncodedDocument:
        """Returns the tokens of a document, with exactly the stored vectors.

        Args:
            document: Ordinal of the document.

        Returns:
            The tokens.
        """
        shard, index = self.locate(document)
        return shard.encoded_document(index)

    @cached_property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, document ordinals."""
        return np.concatenate(
            [
                shard.document_of_token + np.int32(first)
                for shard, first in zip(self.shards, self._first_document, strict=False)
            ]
        )

    @cached_property
    def document_offsets(self) -> np.ndarray:
        """`[documents + 1]` int64; tokens of document `i` are `[i]` to `[i + 1]`."""
        counts = np.concatenate([shard.document_tokens for shard in self.shards])
        return _starts(counts)

    @cached_property
    def pieces(self) -> np.ndarray:
        """`[tokens]` int32, ids in the vocabulary."""
        return self.of_tokens("pieces", 0, self.num_tokens)

    @cached_property
    def spans(self) -> np.ndarray:
        """`[tokens, 2]` int32, characters in each document's `full_text`."""
        return self.of_tokens("spans", 0, self.num_tokens)

    @cached_property
    def positions(self) -> np.ndarray:
        """`[tokens]` int32, the position of each token in its document."""
        return self.of_tokens("positions", 0, self.num_tokens)

    def documents(self, first: int = 0, last: int | None = None) -> Iterator[DocumentRecord]:
        """Yields documents in order, and reads them one by one.

        Args:
            first: The first document.
            last: The document after the last; the end if None.

        Yields:
            The documents.
        """
        last = self.num_documents if last is None else last
        for shard, start in zip(self.shards, self._first_document.tolist(), strict=False):
            if start < last and start + shard.entry.documents > first:
                yield from itertools.islice(shard.documents(), max(first - start, 0), last - start)

    def of_tokens(self, name: str, first: int, last: int) -> np.ndarray:
        """Returns `pieces`, `spans` or `positions` of consecutive tokens.

        Args:
            name: Name of the array.
            first: The first token.
            last: The token after the last.

        Returns:
            `[tokens]`, or `[tokens, 2]` for spans.
        """
        parts = [
            getattr(shard, name)[max(first - start, 0) : max(last - start, 0)]
            for shard, start in zip(self.shards, self._first_token.tolist(), strict=False)
        ]
        return np.concatenate(parts)

    @cached_property
    def document_ids(self) -> list[str]:
        """The ids of all documents, in order."""
        return [document.id for document in self.documents()]

    def verify(self) -> None:
        """Reads every file and checks its hash.

        Raises:
            InputError: If a file was changed; raised for the first such file.
        """
        for shard in self.shards:
            shard.verify()


def _starts(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns `[len(counts) + 1]` int64: the start of each, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

"""Reading one shard of token vectors, memory-mapped. Knows nothing of its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import ml_dtypes
import numpy as np

from xtr_tf.corpus.document import DocumentRecord
from xtr_tf.corpus.files import sha256_of
from xtr_tf.corpus.manifest import ShardEntry
from xtr_tf.corpus.shard_arrays import ARRAYS, ShardArrays
from xtr_tf.corpus.shard_writer import DOCUMENTS_FILE
from xtr_tf.errors import InputError


class Shard:
    """A finished shard's arrays and documents. Arrays have the shapes of `ShardArrays`.

    Args:
        folder: The shard's folder.
        entry: What the manifest says of it.

    Raises:
        InputError: If a file is missing or is not of the size the manifest states.
    """

    def __init__(self, folder: Path, entry: ShardEntry) -> None:
        self.folder = folder
        self.entry = entry
        for name, file in entry.files.items():
            path = folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != file.bytes:
                found = "no such file" if size is None else f"{size} bytes"
                raise InputError(
                    "A shard of token vectors is missing or truncated; encode the corpus again, finished "
                    f"shards are kept. Received: {found} instead of {file.bytes} bytes at {str(path)!r}."
                )

    @cached_property
    def vectors(self) -> np.ndarray:
        """`[tokens, dim]` as stored (float16, or ml_dtypes' bfloat16), memory-mapped."""
        return self.map_vectors()

    def map_vectors(self) -> np.ndarray:
        """The same, mapped anew: what was read of it leaves memory when the caller lets go of it."""
        stored = self._load("vectors")
        return stored.view(ml_dtypes.bfloat16) if self.entry.dtype == "bfloat16" else stored

    @cached_property
    def pieces(self) -> np.ndarray:
        """`[tokens]` int32."""
        return self._load("pieces")

    @cached_property
    def spans(self) -> np.ndarray:
        """`[tokens, 2]` int32."""
        return self._load("spans")

    @cached_property
    def positions(self) -> np.ndarray:
        """`[tokens]` int32."""
        return self._load("positions")

    @cached_property
    def passage_tokens(self) -> np.ndarray:
        """`[passages]` int32."""
        return self._load("passage_tokens")

    @cached_property
    def passage_documents(self) -> np.ndarray:
        """`[passages]` int32, counted from the shard's first document."""
        return self._load("passage_documents")

    @cached_property
    def passage_offsets(self) -> np.ndarray:
        """`[passages + 1]` int64: tokens of passage `i` are those from `[i]` to `[i + 1]`."""
        return np.concatenate([[0], np.cumsum(self.passage_tokens, dtype=np.int64)])

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, counted from the shard's first document."""
        return np.repeat(self.passage_documents, self.passage_tokens)

    @cached_property
    def document_tokens(self) -> np.ndarray:
        """`[documents]` int64, how many tokens each document has."""
        counts = np.zeros(self.entry.documents, np.int64)
        np.add.at(counts, self.passage_documents, self.passage_tokens)
        return counts

    def documents(self) -> Iterator[DocumentRecord]:
        """The documents in order, read as they are asked for."""
        with (self.folder / DOCUMENTS_FILE).open(encoding="utf-8") as file:
            for line in file:
                yield DocumentRecord.from_json(line)

    def arrays(self) -> ShardArrays:
        """Everything at once."""
        return ShardArrays(list(self.documents()), **{name: getattr(self, name) for name in ARRAYS})

    def verify(self) -> None:
        """Reads every file and raises `InputError` for the first whose hash is not the manifest's."""
        for name, file in self.entry.files.items():
            if sha256_of(self.folder / name) != file.sha256:
                raise InputError(
                    "A file of the token vectors is not the one that was written; remove its shard's folder "
                    "and encode the corpus again, the other shards are kept. "
                    f"Received: {str(self.folder / name)!r}, whose SHA-256 differs."
                )

    def _load(self, name: str) -> np.ndarray:
        path = self.folder / f"{name}.npy"
        rows = self.entry.passages if name.startswith("passage_") else self.entry.tokens
        shape = {"vectors": (rows, self.entry.dim), "spans": (rows, 2)}.get(name, (rows,))
        try:
            # An empty file cannot be mapped: a shard whose tokens were all pruned has some.
            array = np.load(path, mmap_mode="r" if rows else None, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(
                "A file of the token vectors is no NumPy array; encode the corpus again. "
                f"Received: {str(path)!r}."
            ) from error
        if array.shape != shape:
            raise InputError(
                f"An array of the token vectors must have the shape {shape} of the manifest. "
                f"Received: {array.shape} at {str(path)!r}."
            )
        return array

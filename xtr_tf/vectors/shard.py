"""One shard: the token vectors of consecutive documents, in memory and as a folder of files.

An encoder makes an `EncodedDocument` of each document, and `assemble` joins them. `write_shard` and `Shard`
write and read the files. Knows nothing about how documents are encoded.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import ml_dtypes
import numpy as np

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.config.retrieval import VECTOR_DTYPES
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, sha256_of
from xtr_tf.vectors.folders import Folder, folder_of
from xtr_tf.vectors.manifest import FileEntry, ShardEntry


@dataclasses.dataclass(frozen=True)
class ShardArrays:
    """Tokens of consecutive documents, passage by passage, in the order of the corpus.

    Attributes:
        documents: The documents, each with one or more passages.
        vectors: `[tokens, dim]` floats, of unit length unless `token_lengths.py` says otherwise.
        pieces: `[tokens]` int32, ids in the vocabulary.
        spans: `[tokens, 2]` int32, the first character and the one after the last, in the document's
            `full_text`.
        positions: `[tokens]` int32, the position of the token in its document, counted before splitting and
            pruning. Tokens in the overlap of two passages have equal positions.
        passage_tokens: `[passages]` int32, the number of tokens in each passage.
        passage_documents: `[passages]` int32, index into `documents`, never decreasing.

    Raises:
        InputError: If the lengths of the arrays do not match, or if the passages are not in the order of the
            documents, with at least one passage each.
    """

    documents: Sequence[DocumentRecord]
    vectors: np.ndarray
    pieces: np.ndarray
    spans: np.ndarray
    positions: np.ndarray
    passage_tokens: np.ndarray
    passage_documents: np.ndarray

    def __post_init__(self) -> None:
        tokens, passages = len(self.vectors), len(self.passage_tokens)
        consistent = (
            self.vectors.ndim == 2
            and self.pieces.shape == self.positions.shape == (tokens,)
            and self.spans.shape == (tokens, 2)
            and self.passage_documents.shape == (passages,)
            and int(self.passage_tokens.sum()) == tokens
        )
        if not consistent:
            shapes = {name: getattr(self, name).shape for name in ARRAYS}
            raise InputError(f"The arrays of a shard must agree in their lengths. Received: {shapes}.")
        owners = np.unique(self.passage_documents)
        if np.any(np.diff(self.passage_documents) < 0) or not np.array_equal(
            owners, np.arange(len(self.documents))
        ):
            raise InputError(
                "The passages of a shard must be in the order of its documents, with at least one each. "
                f"Received: passages of {len(owners)} documents for {len(self.documents)} documents."
            )

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, index into `documents`."""
        return np.repeat(self.passage_documents, self.passage_tokens)


# The arrays of a shard by file name, with their stored types (that of vectors is chosen by the caller).
ARRAYS = {
    "vectors": None,
    "pieces": np.int32,
    "spans": np.int32,
    "positions": np.int32,
    "passage_tokens": np.int32,
    "passage_documents": np.int32,
}


@dataclasses.dataclass(frozen=True)
class EncodedDocument:
    """The tokens of one document, passage by passage. Arrays are as in `ShardArrays`.

    `pruned` is the number of tokens that were encoded but left out.
    """

    vectors: np.ndarray
    pieces: np.ndarray
    spans: np.ndarray
    positions: np.ndarray
    passage_tokens: np.ndarray
    pruned: int = 0


def assemble(records: Sequence[DocumentRecord], documents: Sequence[EncodedDocument]) -> ShardArrays:
    """Joins documents in the given order.

    Args:
        records: The record of each document.
        documents: The tokens of each document; at least one document.

    Returns:
        The arrays of a shard.
    """
    joined = {
        name: np.concatenate([getattr(document, name) for document in documents])
        for name in ("vectors", "pieces", "spans", "positions", "passage_tokens")
    }
    passages = [len(document.passage_tokens) for document in documents]
    owners = np.repeat(np.arange(len(documents), dtype=np.int32), passages)
    return ShardArrays(records, passage_documents=owners, **joined)


ENTRY_FILE = "shard.json"
DOCUMENTS_FILE = "documents.jsonl"
#: The folder of a shard for codes that are stored in place of its vectors.
CODES_FOLDER = "part"


def shard_name(index: int, count: int) -> str:
    """Returns the folder name of a shard, such as `shard-00000-of-00010`.

    Args:
        index: Position of the shard, from 0.
        count: Number of all shards.

    Returns:
        The name.
    """
    return f"shard-{index:05d}-of-{count:05d}"


def write_shard(
    directory: Path,
    name: str,
    arrays: ShardArrays,
    dtype: str = "float16",
    key: str = "",
    counters: Mapping[str, int] | None = None,
    code: Callable[[Path, np.ndarray], None] | None = None,
) -> ShardEntry:
    """Writes the folder of a shard, and replaces an existing one with the same name.

    Args:
        directory: The directory of token vectors.
        name: The result of `shard_name`.
        arrays: The content.
        dtype: Type to store vectors as, `float16` or `bfloat16`.
        key: Hash of everything that the content was made from.
        counters: Counters of the encoding.
        code: Called in place of storing the vectors, with the folder to create for codes and `[tokens, dim]`
            float32, the vectors as rounded to `dtype`.

    Returns:
        The entry for the manifest, which is also stored in the folder.

    Raises:
        InputError: If the dtype is another one, or if a vector is not finite.
    """
    stored = stored_arrays(arrays, dtype)
    with atomic_directory(directory / name, overwrite=True) as folder:
        if code is not None:
            code(folder / CODES_FOLDER, as_floats(stored.pop("vectors"), dtype).astype(np.float32))
        for array_name, array in stored.items():
            np.save(folder / f"{array_name}.npy", array, allow_pickle=False)
        with (folder / DOCUMENTS_FILE).open("w", encoding="utf-8") as file:
            file.writelines(f"{document.to_json()}\n" for document in arrays.documents)
        files = {
            path.relative_to(folder).as_posix(): FileEntry(path.stat().st_size, sha256_of(path))
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        entry = ShardEntry(
            name=name,
            documents=len(arrays.documents),
            passages=len(arrays.passage_tokens),
            tokens=len(arrays.vectors),
            dim=arrays.vectors.shape[1],
            dtype=dtype,
            key=key,
            files=files,
            counters=dict(counters or {}),
        )
        (folder / ENTRY_FILE).write_text(json.dumps(dataclasses.asdict(entry), indent=1))
    return entry


def read_shard_entry(directory: Path, name: str) -> ShardEntry | None:
    """Reads the entry of a finished shard.

    Args:
        directory: The directory of token vectors.
        name: Name of the shard's folder.

    Returns:
        The entry, or None if there is none that can be read.
    """
    try:
        return ShardEntry.from_dict(json.loads((directory / name / ENTRY_FILE).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def stored_arrays(arrays: ShardArrays, dtype: str) -> dict[str, np.ndarray]:
    """Returns the arrays as they are stored. `.npy` does not support bfloat16, so it is stored as its bits.

    Args:
        arrays: The arrays of the shard.
        dtype: `float16` or `bfloat16`.

    Returns:
        Arrays by file name.

    Raises:
        InputError: If the dtype is another one, or if a vector is not finite.
    """
    if dtype not in VECTOR_DTYPES:
        raise InputError(f"Token vectors are stored as {' or '.join(VECTOR_DTYPES)}. Received: {dtype!r}.")
    if not np.isfinite(arrays.vectors).all():
        raise InputError("Token vectors must be finite; check the encoder. Received: NaN or infinity.")
    stored = {
        name: np.ascontiguousarray(getattr(arrays, name), array_type)
        for name, array_type in ARRAYS.items()
        if array_type is not None
    }
    if dtype == "float16":
        stored["vectors"] = np.ascontiguousarray(arrays.vectors, np.float16)
    else:
        stored["vectors"] = np.ascontiguousarray(arrays.vectors, ml_dtypes.bfloat16).view(np.uint16)
    return stored


def as_floats(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Returns vectors as floats, from the form in which they are stored.

    Args:
        stored: Vectors as `stored_arrays` returns them.
        dtype: `float16` or `bfloat16`.

    Returns:
        The same array as float16 or ml_dtypes' bfloat16.
    """
    return stored.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else stored


class Shard:
    """The arrays and documents of a finished shard. Arrays have the shapes of `ShardArrays`.

    Args:
        folder: The folder of the shard.
        entry: Its entry in the manifest.

    Raises:
        InputError: If a file is missing, or if its size is not the one in the manifest. Files that are
            elsewhere are checked when they are read.
    """

    def __init__(self, folder: Path | Folder, entry: ShardEntry) -> None:
        self.files = folder_of(folder)
        self.entry = entry
        for name in entry.files:
            if not self.files.is_elsewhere(name):
                self.file(name)

    @property
    def folder(self) -> Path:
        """The folder of the shard on this machine."""
        return self.files.path

    def file(self, name: str) -> Path:
        """Returns the path of a file, which is on this machine afterwards.

        Args:
            name: Its name in the entry.

        Returns:
            The path.

        Raises:
            InputError: If it is missing, or if its size is not the one in the manifest.
        """
        path, expected = self.files.file(name), self.entry.files[name].bytes
        size = path.stat().st_size if path.is_file() else None
        if size != expected:
            found = "no such file" if size is None else f"{size} bytes"
            raise InputError(
                "A shard of token vectors is missing or truncated; encode the corpus again, finished "
                f"shards are kept. Received: {found} instead of {expected} bytes at {str(path)!r}."
            )
        return path

    @cached_property
    def vectors(self) -> np.ndarray:
        """`[tokens, dim]` as stored (float16, or ml_dtypes' bfloat16), memory-mapped."""
        return self.map_vectors()

    def map_vectors(self) -> np.ndarray:
        """Maps the vectors again. The pages that were read leave memory when the caller releases the array.

        Returns:
            `[tokens, dim]`, as `vectors`.

        Raises:
            InputError: If the shard was written without its vectors.
        """
        if not self.has_vectors:
            raise InputError(
                "These documents were encoded without keeping their vectors; encode them again with vectors. "
                f"Received: {str(self.folder)!r}."
            )
        return as_floats(self._load("vectors"), self.entry.dtype)

    @property
    def has_vectors(self) -> bool:
        """Whether the vectors were kept."""
        return "vectors.npy" in self.entry.files

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
        """`[passages]` int32, documents counted from the first one of the shard."""
        return self._load("passage_documents")

    @cached_property
    def passage_offsets(self) -> np.ndarray:
        """`[passages + 1]` int64; tokens of passage `i` are `[i]` to `[i + 1]`."""
        return np.concatenate([[0], np.cumsum(self.passage_tokens, dtype=np.int64)])

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, documents counted from the first one of the shard."""
        return np.repeat(self.passage_documents, self.passage_tokens)

    @cached_property
    def document_tokens(self) -> np.ndarray:
        """`[documents]` int64, the number of tokens in each document."""
        counts = np.zeros(self.entry.documents, np.int64)
        np.add.at(counts, self.passage_documents, self.passage_tokens)
        return counts

    def documents(self) -> Iterator[DocumentRecord]:
        """Yields the documents in order, and reads them one by one."""
        with self.file(DOCUMENTS_FILE).open(encoding="utf-8") as file:
            for line in file:
                yield DocumentRecord.from_json(line)

    def encoded_document(self, index: int) -> EncodedDocument:
        """Returns the tokens of one document, with exactly the stored vectors.

        Args:
            index: The document, counted from the first one of the shard.

        Returns:
            The tokens.
        """
        first_passage, last_passage = np.searchsorted(self.passage_documents, [index, index + 1])
        first, last = self.passage_offsets[[first_passage, last_passage]]
        return EncodedDocument(
            vectors=self.vectors[first:last],
            pieces=self.pieces[first:last],
            spans=self.spans[first:last],
            positions=self.positions[first:last],
            passage_tokens=self.passage_tokens[first_passage:last_passage],
        )

    def codes(self) -> Path:
        """Returns the folder of the codes that are stored in place of vectors."""
        for name in self.entry.files:
            if name.startswith(f"{CODES_FOLDER}/"):
                self.file(name)
        return self.folder / CODES_FOLDER

    def arrays(self) -> ShardArrays:
        """Returns all arrays and documents at once."""
        return ShardArrays(list(self.documents()), **{name: getattr(self, name) for name in ARRAYS})

    def verify(self) -> None:
        """Reads every file and checks its hash.

        Raises:
            InputError: If a hash is not the one in the manifest; raised for the first such file.
        """
        for name, file in self.entry.files.items():
            if sha256_of(self.file(name)) != file.sha256:
                raise InputError(
                    "A file of the token vectors was changed; remove its shard's folder and encode "
                    "the corpus again, the other shards are kept. "
                    f"Received: {str(self.folder / name)!r}, whose SHA-256 differs."
                )

    def _load(self, name: str) -> np.ndarray:
        path = self.file(f"{name}.npy")
        rows = self.entry.passages if name.startswith("passage_") else self.entry.tokens
        shape = {"vectors": (rows, self.entry.dim), "spans": (rows, 2)}.get(name, (rows,))
        try:
            # An empty array cannot be mapped. A shard whose tokens were all pruned has such arrays.
            array = np.load(path, mmap_mode="r" if rows else None, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(
                "A file of the token vectors is not a NumPy array; encode the corpus again. "
                f"Received: {str(path)!r}."
            ) from error
        if array.shape != shape:
            raise InputError(
                f"An array of the token vectors must have the shape {shape} of the manifest. "
                f"Received: {array.shape} at {str(path)!r}."
            )
        return array

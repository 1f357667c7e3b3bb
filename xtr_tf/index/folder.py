"""An index directory: `manifest.json`, and the arrays that it lists, one `.npy` file each.

Knows names, counts and hashes, but not what the arrays mean or how they are made. The names of arrays and
manifest keys belong to the format. The code has newer names for some of them:

| in the directory | in the code |
|---|---|
| `cells.npy` | `leaf_of_token`, the leaf of each token in a `scann` index |
| `tokens.npy`, `cell_offsets.npy` | `postings` and `leaf_offsets`: tokens of a `core` index, sorted by leaf |
| `router_cells.npy`, `_offsets`, `_leaves` | `LeafRouter`, absent if leaves are few or are searched exactly |
| `piece_ids.npy`, `piece_documents.npy` | `PieceFrequencies`, absent if pieces are not known |
| `lexical_terms.npy`, `_offsets`, `_documents`, `_impacts` | `TermPostings`, absent without `lexical` |
| config `cells`, `leaves`, `training_rounds` | the fields of `IndexConfig` that `RENAMED` maps them to |
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import sha256_of, write_atomically, writing
from xtr_tf.vectors.folders import Folder, folder_of
from xtr_tf.vectors.manifest import MANIFEST_FILE, read_manifest_file
from xtr_tf.vectors.token_lengths import UNIT_LENGTH, TokenLengths

FORMAT = "xtr-token-index"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class IndexManifest:
    """The content of `manifest.json`. It is written last: without it, the directory is unfinished.

    Attributes:
        num_tokens: Number of indexed tokens.
        num_documents: Number of documents they belong to.
        dim: Width of a token vector.
        config: The configuration of the index. Automatic values are stored as given (0), not as chosen.
        encoder_fingerprint: Fingerprint of the encoder that made the vectors.
        files: Size in bytes and SHA-256 of each file, by name.
        trained: Fingerprint of the quantiser that coded a part of an index, which is stored elsewhere. It is
            only in the file of a part.
        token_lengths: The lengths of the indexed vectors. They are only in the file if they are not 1.
    """

    num_tokens: int
    num_documents: int
    dim: int
    config: IndexConfig
    encoder_fingerprint: str
    files: Mapping[str, tuple[int, str]]
    trained: str = ""
    token_lengths: TokenLengths = UNIT_LENGTH

    def write(self, directory: Path) -> None:
        """Writes `manifest.json`, either completely or not at all.

        Args:
            directory: The directory of the index.
        """
        content = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(self)}
        content["config"] = stored_config(self.config)
        content["token_lengths"] = self.token_lengths._asdict()
        if not self.trained:
            del content["trained"]
        if self.token_lengths.are_one:
            del content["token_lengths"]
        write_atomically(directory / MANIFEST_FILE, json.dumps(content, indent=1).encode())

    @classmethod
    def read(cls, directory: Path) -> IndexManifest:
        """Reads `manifest.json`.

        Args:
            directory: The directory of the index.

        Returns:
            The manifest.

        Raises:
            InputError: If the file is missing or damaged, or is of another format or version.
        """
        return read_manifest_file(directory, FORMAT, VERSION, cls._parse, "token index", "xtr-tf index")

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> IndexManifest:
        stored = content.pop("config")
        config = IndexConfig(**{IndexConfig.RENAMED.get(key, key): stored[key] for key in stored})
        files = {name: (int(size), str(digest)) for name, (size, digest) in content.pop("files").items()}
        lengths = TokenLengths(**content.pop("token_lengths", {}))
        return cls(config=config, files=files, token_lengths=lengths, **content)


def stored_config(config: IndexConfig) -> dict[str, Any]:
    """Returns a configuration under the original keys of manifests and model cards.

    Args:
        config: The configuration.

    Returns:
        Values by stored key.
    """
    stored_keys = {field: key for key, field in IndexConfig.RENAMED.items()}
    return {stored_keys.get(field, field): value for field, value in dataclasses.asdict(config).items()}


def file_entries(directory: Path) -> dict[str, tuple[int, str]]:
    """Returns the size and hash of every file in a directory.

    Args:
        directory: The directory.

    Returns:
        Size in bytes and SHA-256 by file name.
    """
    return {path.name: (path.stat().st_size, sha256_of(path)) for path in sorted(directory.iterdir())}


class TokenIndex:
    """An index on disk. Open one with `TokenIndex.open`.

    Attributes:
        files: The directory of the index.
        manifest: Its manifest.

    Example:
        >>> index = TokenIndex.open("out/index")
        >>> index.num_tokens, index.config.kind
        (1000000, 'scann')
    """

    def __init__(self, files: Folder, manifest: IndexManifest) -> None:
        self.files = files
        self.manifest = manifest
        self.num_tokens = manifest.num_tokens
        self.num_documents = manifest.num_documents
        self.dim = manifest.dim
        self.config = manifest.config
        self.encoder_fingerprint = manifest.encoder_fingerprint

    @classmethod
    def open(cls, directory: str | Path | Folder) -> TokenIndex:
        """Opens a directory. File sizes are checked, and hashes only by `verify`.

        Args:
            directory: The directory of the index. Files of a remote one are copied when they are read.

        Returns:
            The opened index.

        Raises:
            InputError: If it is unfinished or damaged, or not an index.
        """
        files = folder_of(directory)
        index = cls(files, IndexManifest.read(files.file(MANIFEST_FILE).parent))
        if files.is_here:
            for name in index.manifest.files:
                index.file(name)
        return index

    @property
    def directory(self) -> Path:
        """The directory of the index on this machine."""
        return self.files.path

    def file(self, name: str) -> Path:
        """Returns the path of a file, which is on this machine afterwards.

        Args:
            name: Its name in the manifest.

        Returns:
            The path.

        Raises:
            InputError: If it is missing, or if its size is not the one in the manifest.
        """
        path, (size, _) = self.files.file(name), self.manifest.files[name]
        actual = path.stat().st_size if path.is_file() else None
        if actual != size:
            raise InputError(
                f"`{name}` of the token index should have {size} bytes; build the index again. "
                f"Received: {'no such file' if actual is None else f'{actual} bytes'}."
            )
        return path

    def verify(self) -> None:
        """Reads every file and checks its hash.

        Raises:
            InputError: If a file was changed; raised for the first such file.
        """
        for name, (_, digest) in self.manifest.files.items():
            if sha256_of(self.file(name)) != digest:
                raise InputError(
                    "A file of the token index was changed; build the index again. "
                    f"Received: {str(self.directory / name)!r}."
                )

    def array(self, name: str) -> np.ndarray:
        """Returns the array in `{name}.npy`, memory-mapped.

        Args:
            name: Name of the array, without suffix.

        Returns:
            The array, read-only.

        Raises:
            InputError: If the index has no such array, or the file is not a NumPy array.
        """
        if f"{name}.npy" not in self.manifest.files:
            raise InputError(f"A {self.config.kind} index has no array of this name. Received: {name!r}.")
        path = self.file(f"{name}.npy")
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise InputError(
                "This file of the token index is not a NumPy array; build the index again. "
                f"Received: {str(path)!r}."
            ) from error

    @property
    def document_offsets(self) -> np.ndarray:
        """`[documents + 1]` int64; tokens of document `i` are `[i]` to `[i + 1]`."""
        return self.array("document_offsets")

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32, document ordinals."""
        return np.repeat(np.arange(self.num_documents, dtype=np.int32), np.diff(self.document_offsets))

    @property
    def num_bytes(self) -> int:
        """Size of all files in the manifest, in bytes."""
        return sum(size for size, _ in self.manifest.files.values())


def create_array(folder: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.memmap:
    """Creates `{name}.npy` as a memory-mapped array, which need not fit in memory. The caller flushes it.

    Disk space is reserved immediately. Otherwise, writing to a mapped page on a full disk would kill the
    process.

    Args:
        folder: The folder of the index.
        name: Name of the array, without suffix.
        shape: Shape of the array.
        dtype: Type of the array.

    Returns:
        The array, filled with zeros.

    Raises:
        OSError: If the disk is full.
    """
    path = folder / f"{name}.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    needed = path.stat().st_size
    with writing(path, needed), path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, needed)
    return array


def save_array(folder: Path, name: str, array: np.ndarray) -> None:
    """Writes a whole array to `{name}.npy`.

    Args:
        folder: The folder of the index.
        name: Name of the array, without suffix.
        array: The array to write.
    """
    np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)

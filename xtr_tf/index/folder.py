"""An index directory: `manifest.json`, and the arrays that it vouches for, one `.npy` file each.

Knows names, counts and hashes, not what the arrays mean or how they are made. The names of arrays and
of manifest keys are the format's; the code's words for some of them are newer:

| in the directory | in the code |
|---|---|
| `cells.npy` | `leaf_of_token`, the leaf that each token of a `scann` index lies in |
| `tokens.npy`, `cell_offsets.npy` | `postings` and `leaf_offsets`: tokens of a `core` index, leaf by leaf |
| `piece_ids.npy`, `piece_documents.npy` | `PieceFrequencies`, absent where pieces are not known |
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
from xtr_tf.vectors.manifest import MANIFEST_FILE, read_manifest_file

FORMAT = "xtr-token-index"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class IndexManifest:
    """What the whole directory is. It is written last: without it the directory is unfinished.

    Attributes:
        num_tokens: Indexed tokens.
        num_documents: Documents they belong to.
        dim: Width of a token vector.
        config: What the index was made with, automatic values as given (0), not as chosen.
        encoder_fingerprint: Of the encoder that made the vectors.
        files: Name to size in bytes and SHA-256.
    """

    num_tokens: int
    num_documents: int
    dim: int
    config: IndexConfig
    encoder_fingerprint: str
    files: Mapping[str, tuple[int, str]]

    def write(self, directory: Path) -> None:
        """Writes `manifest.json`, whole or not at all."""
        content = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(self)}
        content["config"] = stored_config(self.config)
        write_atomically(directory / MANIFEST_FILE, json.dumps(content, indent=1).encode())

    @classmethod
    def read(cls, directory: Path) -> IndexManifest:
        """Reads `manifest.json`, refusing whatever is not one of ours."""
        return read_manifest_file(directory, FORMAT, VERSION, cls._parse, "token index", "xtr-tf index")

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> IndexManifest:
        stored = content.pop("config")
        config = IndexConfig(**{IndexConfig.RENAMED.get(key, key): stored[key] for key in stored})
        files = {name: (int(size), str(digest)) for name, (size, digest) in content.pop("files").items()}
        return cls(config=config, files=files, **content)


def stored_config(config: IndexConfig) -> dict[str, Any]:
    """A configuration under the keys that manifests and model cards have always had."""
    stored_keys = {field: key for key, field in IndexConfig.RENAMED.items()}
    return {stored_keys.get(field, field): value for field, value in dataclasses.asdict(config).items()}


def file_entries(directory: Path) -> dict[str, tuple[int, str]]:
    """Returns size and hash of every file of a directory, by name."""
    return {path.name: (path.stat().st_size, sha256_of(path)) for path in sorted(directory.iterdir())}


class TokenIndex:
    """An index on disk.

    Attributes:
        directory: Where it lies.
        manifest: What it says of itself.

    Example:
        >>> index = TokenIndex.open("out/index")
        >>> index.num_tokens, index.config.kind
        (1000000, 'scann')
    """

    def __init__(self, directory: Path, manifest: IndexManifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self.num_tokens = manifest.num_tokens
        self.num_documents = manifest.num_documents
        self.dim = manifest.dim
        self.config = manifest.config
        self.encoder_fingerprint = manifest.encoder_fingerprint

    @classmethod
    def open(cls, directory: str | Path) -> TokenIndex:
        """Opens a directory; sizes are checked, hashes only by `verify`.

        Raises:
            InputError: If it is unfinished, damaged or something else.
        """
        directory = Path(directory)
        manifest = IndexManifest.read(directory)
        for name, (size, _) in manifest.files.items():
            path = directory / name
            actual = path.stat().st_size if path.is_file() else None
            if actual != size:
                raise InputError(
                    f"`{name}` of the token index should have {size} bytes; build the index again. "
                    f"Received: {'no such file' if actual is None else f'{actual} bytes'}."
                )
        return cls(directory, manifest)

    def verify(self) -> None:
        """Reads every file and raises `InputError` for the first that is not the one written."""
        for name, (_, digest) in self.manifest.files.items():
            if sha256_of(self.directory / name) != digest:
                raise InputError(
                    "A file of the token index is not the one that was written; build the index again. "
                    f"Received: {str(self.directory / name)!r}."
                )

    def array(self, name: str) -> np.ndarray:
        """Returns the array of `{name}.npy`, mapped from the file."""
        path = self.directory / f"{name}.npy"
        if path.name not in self.manifest.files:
            raise InputError(f"A {self.config.kind} index has no array of this name. Received: {name!r}.")
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise InputError(
                "This file of the token index is not a NumPy array; build the index again. "
                f"Received: {str(path)!r}."
            ) from error

    @property
    def document_offsets(self) -> np.ndarray:
        """`[documents + 1]` int64."""
        return self.array("document_offsets")

    @property
    def document_of_token(self) -> np.ndarray:
        """`[tokens]` int32 document ordinals."""
        return np.repeat(np.arange(self.num_documents, dtype=np.int32), np.diff(self.document_offsets))

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(size for size, _ in self.manifest.files.values())


def create_array(folder: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.memmap:
    """A new `{name}.npy`, mapped to memory so that it need not fit there; the caller flushes it.

    The space is taken at once: a mapped page that finds none when it is written kills the process.

    Args:
        folder: Of the index.
        name: Of the array, without suffix.
        shape: Its shape.
        dtype: Its type.

    Returns:
        The array, zeros.

    Raises:
        OSError: The disk is full.
    """
    path = folder / f"{name}.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    needed = path.stat().st_size
    with writing(path, needed), path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, needed)
    return array


def save_array(folder: Path, name: str, array: np.ndarray) -> None:
    """Writes a whole `{name}.npy`.

    Args:
        folder: Of the index.
        name: Of the array, without suffix.
        array: What to write.
    """
    np.save(folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)

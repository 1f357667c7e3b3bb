"""A finished index directory: what searchers are made from, refreshed from and exported from.

    manifest.json           counts, configuration, encoder fingerprint, every file's SHA-256
    document_offsets.npy    [documents + 1] int64; tokens of document i are [i] to [i + 1]

    kind `scann`            kind `core`                             kind `exact`
    centres.npy             centres.npy                             vectors.npy
    multipliers.npy         multipliers.npy                           [tokens, dim]
    codebook.npy            vectors.npy [tokens, dim] by cell
    cells.npy [tokens]      tokens.npy [tokens] ordinals by cell
    codes.npy [tokens, …]   cell_offsets.npy [cells + 1]
    int8.npy (reordering)

bfloat16 is stored as its bits in uint16. Arrays are memory-mapped: nothing here holds more than
is asked for. Knows nothing of TensorFlow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xtr_tf.corpus.files import sha256_of
from xtr_tf.errors import InputError
from xtr_tf.index.index_manifest import IndexManifest


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
            found = path.stat().st_size if path.is_file() else None
            if found != size:
                raise InputError(
                    f"`{name}` of the token index should have {size} bytes; build the index again. "
                    f"Received: {'no such file' if found is None else f'{found} bytes'}."
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
                "This file of the token index is no NumPy array; build the index again. "
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

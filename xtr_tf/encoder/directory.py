"""An encoder on disk: one directory of `encoder.json`, `weights.safetensors` and `tokenizer.model`.

Written whole or not at all, and read back only if it is what was written. What other
frameworks write is read by the importers, not here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np

from xtr_tf.config.schema import Dtype
from xtr_tf.encoder.encoder import Encoder
from xtr_tf.encoder.manifest import TOKENIZER_FILE, WEIGHTS_FILE, read_manifest, write_manifest
from xtr_tf.encoder.staging import staged_directory
from xtr_tf.errors import InputError
from xtr_tf.tokenizer import Tokenizer

Storage = Literal["float32", "float16", "bfloat16"]
_STORAGE_DTYPES: dict[str, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def save_encoder(
    directory: str | Path,
    encoder: Encoder,
    tokenizer: Tokenizer,
    storage: Storage = "float32",
    overwrite: bool = False,
) -> str:
    """Writes an encoder and its tokenizer.

    Args:
        directory: Where to; appears only when complete.
        encoder: The encoder.
        tokenizer: The tokenizer whose ids it was trained on.
        storage: Precision of the weights on disk; the 16-bit ones halve the directory.
        overwrite: Whether to replace a directory that is already there.

    Returns:
        The encoder's fingerprint.
    """
    from safetensors.numpy import save_file

    if storage not in _STORAGE_DTYPES:
        raise InputError(f"`storage` must be one of {sorted(_STORAGE_DTYPES)}. Received: {storage!r}.")
    if tokenizer.vocabulary_size > encoder.config.vocabulary_size:
        raise InputError(
            "The tokenizer has more pieces than the encoder has embeddings; save it with its own tokenizer. "
            f"Received: {tokenizer.vocabulary_size} pieces, {encoder.config.vocabulary_size} embeddings."
        )
    with staged_directory(Path(directory), overwrite) as staging:
        weights = {
            name: weight.astype(_STORAGE_DTYPES[storage], copy=False)
            for name, weight in encoder.get_canonical_weights().items()
        }
        save_file(weights, staging / WEIGHTS_FILE)
        (staging / WEIGHTS_FILE).chmod(0o644)  # safetensors makes its files private
        (staging / TOKENIZER_FILE).write_bytes(tokenizer.model_bytes)
        return write_manifest(staging, encoder.config, tokenizer.config)


def load_encoder(directory: str | Path, dtype: Dtype | None = None) -> tuple[Encoder, Tokenizer]:
    """Reads what `save_encoder` wrote.

    Args:
        directory: The directory.
        dtype: The dtype policy to compute with, instead of the one it was saved with.

    Returns:
        The encoder and its tokenizer.

    Raises:
        InputError: The directory is not an encoder's, is incomplete, or was changed.
    """
    from safetensors import SafetensorError, safe_open

    directory = Path(directory)
    manifest = read_manifest(directory)
    config = manifest.encoder if dtype is None else dataclasses.replace(manifest.encoder, dtype=dtype)
    encoder = Encoder(config, seed=None)
    try:
        with safe_open(directory / WEIGHTS_FILE, framework="numpy") as file:
            encoder.set_canonical_weights({name: _StoredWeight(file, name) for name in file.keys()})  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(
            f"The encoder's weights are truncated or damaged ({error}); copy the directory again. "
            f"Received: {str(directory / WEIGHTS_FILE)!r}."
        ) from error
    return encoder, Tokenizer(manifest.tokenizer)


class _StoredWeight:
    """A weight that is read from its file when NumPy asks for it."""

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self._name = name
        self.shape = tuple(file.get_slice(name).get_shape())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._file.get_tensor(self._name), dtype=dtype)

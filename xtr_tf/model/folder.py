"""The folder of an encoder: `encoder.json`, `weights.safetensors`, `tokenizer.model`, maybe `background.npy`.

The manifest, `encoder.json`, describes the encoder and proves that the folder is complete. Writing
or reading it needs no TensorFlow, which is imported only to make an `Encoder`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import ml_dtypes
import numpy as np

from xtr_tf.config.model import Dtype, EncoderConfig, TokenizerConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory

if TYPE_CHECKING:
    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.tokenizer import Tokenizer

MANIFEST_FILE = "encoder.json"
WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.model"
#: `[vocabulary]` float32: the share of texts that have each piece, in a broad background such as the texts
#: it was trained on. No vector depends on it, so it is not part of the fingerprint.
BACKGROUND_FILE = "background.npy"

_FORMAT = "xtr-tf encoder"
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The content of `encoder.json`.

    Attributes:
        encoder: Shape of the encoder.
        tokenizer: Settings of the tokenizer, with the path of the model file in the directory.
        fingerprint: SHA-256, in hexadecimal, of the configuration, the weights and the tokenizer's model.
            Encoders with the same fingerprint give the same vectors.
    """

    encoder: EncoderConfig
    tokenizer: TokenizerConfig
    fingerprint: str


def write_manifest(directory: Path, encoder: EncoderConfig, tokenizer: TokenizerConfig) -> str:
    """Writes the manifest of a directory that already has the weights and the tokenizer's model.

    Args:
        directory: The directory.
        encoder: Shape of the encoder.
        tokenizer: Settings of the tokenizer.

    Returns:
        The fingerprint.
    """
    settings = {"encoder": dataclasses.asdict(encoder), "tokenizer": dataclasses.asdict(tokenizer)}
    del settings["tokenizer"]["model"]
    fingerprint = _fingerprint(directory, settings)
    content = {"format": _FORMAT, "version": _VERSION, "fingerprint": fingerprint, **settings}
    (directory / MANIFEST_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return fingerprint


def read_manifest(directory: Path) -> Manifest:
    """Reads `encoder.json` and checks the other files against its fingerprint.

    Args:
        directory: The directory of the encoder.

    Returns:
        The manifest.

    Raises:
        InputError: The directory is not that of an encoder, is incomplete, or was changed.
    """
    path = directory / MANIFEST_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(
            f"An encoder's directory has a readable {MANIFEST_FILE}; give one that `xtr-tf` wrote. "
            f"Received: {str(directory)!r}."
        ) from error
    manifest = parse_manifest(text, str(path))
    for name in (WEIGHTS_FILE, TOKENIZER_FILE):
        if not (directory / name).is_file():
            raise InputError(
                f"The encoder's {name} is missing; copy the whole directory. Received: {str(directory)!r}."
            )
    if _fingerprint(directory, _settings(json.loads(text))) != manifest.fingerprint:
        raise InputError(
            "The encoder's files do not match its fingerprint: they are truncated or were changed; "
            f"copy the directory again. Received: {str(directory)!r}."
        )
    return manifest


def parse_manifest(text: str, path: str) -> Manifest:
    """Parses the content of an `encoder.json` without checking the files next to it.

    Args:
        text: The content.
        path: Its path, for messages and for the path of the tokenizer's model; may be remote.

    Returns:
        The manifest.

    Raises:
        InputError: It does not describe an encoder.
    """
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    required = {"format", "version", "fingerprint", "encoder", "tokenizer"}
    if not isinstance(content, dict) or not required <= content.keys() or content["format"] != _FORMAT:
        raise InputError(
            f"{MANIFEST_FILE} does not describe an encoder of xtr-tf; give a directory that it wrote. "
            f"Received: {path!r}."
        )
    if content["version"] != _VERSION:
        raise InputError(
            f"Only version {_VERSION} of an encoder's directory can be read; upgrade xtr-tf. "
            f"Received: version {content['version']!r} in {path!r}."
        )
    try:
        return Manifest(
            encoder=EncoderConfig(**content["encoder"]),
            tokenizer=TokenizerConfig(
                **content["tokenizer"], model=path.removesuffix(MANIFEST_FILE) + TOKENIZER_FILE
            ),
            fingerprint=content["fingerprint"],
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The encoder's {MANIFEST_FILE} cannot be understood ({error}); save the encoder again. "
            f"Received: {path!r}."
        ) from error


def _settings(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of a manifest that its fingerprint covers."""
    return {name: content[name] for name in ("encoder", "tokenizer")}


def _fingerprint(directory: Path, settings: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in (TOKENIZER_FILE, WEIGHTS_FILE):
        with (directory / name).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


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
    background: np.ndarray | None = None,
    dtype: Dtype | None = None,
) -> str:
    """Saves an encoder and its tokenizer.

    Args:
        directory: The directory to write. It appears only when it is complete.
        encoder: The encoder.
        tokenizer: The tokenizer that it was trained with.
        storage: Precision of the weights on disk; 16 bits halve the size.
        overwrite: Whether to replace an existing directory.
        background: `[vocabulary]` floats, how common pieces are (see `BACKGROUND_FILE`), if known.
        dtype: The dtype policy to compute with after loading; by default the encoder's own.

    Returns:
        The fingerprint of the encoder.

    Raises:
        InputError: The directory exists, or the tokenizer does not fit the encoder.
    """
    from safetensors.numpy import save_file

    if storage not in _STORAGE_DTYPES:
        raise InputError(f"`storage` must be one of {sorted(_STORAGE_DTYPES)}. Received: {storage!r}.")
    if tokenizer.vocabulary_size > encoder.config.vocabulary_size:
        raise InputError(
            "The tokenizer has more pieces than the encoder has embeddings; save it with its own tokenizer. "
            f"Received: {tokenizer.vocabulary_size} pieces, {encoder.config.vocabulary_size} embeddings."
        )
    with atomic_directory(Path(directory), overwrite) as staging:
        weights = {
            name: weight.astype(_STORAGE_DTYPES[storage], copy=False)
            for name, weight in encoder.get_canonical_weights().items()
        }
        save_file(weights, staging / WEIGHTS_FILE)
        (staging / WEIGHTS_FILE).chmod(0o644)  # safetensors makes its files private
        (staging / TOKENIZER_FILE).write_bytes(tokenizer.model_bytes)
        if background is not None:
            np.save(staging / BACKGROUND_FILE, background.astype(np.float32), allow_pickle=False)
        config = encoder.config if dtype is None else dataclasses.replace(encoder.config, dtype=dtype)
        return write_manifest(staging, config, tokenizer.config)


def copy_encoder(source: str | Path, directory: str | Path, overwrite: bool = False) -> Path:
    """Copies the files of an encoder, and no other files in its directory.

    Args:
        source: The directory of the encoder.
        directory: The directory to write. It appears only when it is complete.
        overwrite: Whether to replace an existing directory.

    Returns:
        `directory`, as a path.
    """
    source, directory = Path(source), Path(directory)
    with atomic_directory(directory, overwrite) as staging:
        for name in (MANIFEST_FILE, WEIGHTS_FILE, TOKENIZER_FILE):
            shutil.copyfile(source / name, staging / name)
        if (source / BACKGROUND_FILE).is_file():
            shutil.copyfile(source / BACKGROUND_FILE, staging / BACKGROUND_FILE)
        read_manifest(staging)
    return directory


def read_background(directory: str | Path, vocabulary_size: int) -> np.ndarray | None:
    """Reads how common the pieces are in the background of an encoder.

    Args:
        directory: The directory of the encoder.
        vocabulary_size: Number of pieces in its vocabulary.

    Returns:
        `[vocabulary]` float32, or None if the encoder has no background.

    Raises:
        InputError: The file does not hold one share per piece.
    """
    path = Path(directory) / BACKGROUND_FILE
    if not path.is_file():
        return None
    try:
        shares = np.load(path, allow_pickle=False)
    except ValueError:
        shares = np.zeros(0)
    if shares.shape != (vocabulary_size,) or not np.all((shares >= 0) & (shares <= 1)):
        raise InputError(
            f"The encoder's {BACKGROUND_FILE} must hold a share from 0 to 1 for each of {vocabulary_size} "
            f"pieces; remove it or copy it again. Received: {str(path)!r}."
        )
    return shares.astype(np.float32)


def load_encoder(directory: str | Path, dtype: Dtype | None = None) -> tuple[Encoder, Tokenizer]:
    """Loads an encoder and its tokenizer.

    Args:
        directory: A directory that `save_encoder` wrote.
        dtype: The dtype policy to compute with; by default the one it was saved with.

    Returns:
        The encoder and its tokenizer.

    Raises:
        InputError: The directory is not that of an encoder, is incomplete, or was changed.

    Example:
        >>> import tensorflow as tf
        >>> encoder, tokenizer = load_encoder("models/mxtr_tiny")
        >>> encoder(tokenizer.tokenize_queries(tf.constant(["How deep is Lake Baikal?"]))).shape
        TensorShape([1, 32, 128])
    """
    from safetensors import SafetensorError, safe_open

    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.tokenizer import Tokenizer

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
    """A weight that is read from its file when NumPy needs it."""

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self._name = name
        self.shape = tuple(file.get_slice(name).get_shape())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._file.get_tensor(self._name), dtype=dtype)

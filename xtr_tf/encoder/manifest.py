"""`encoder.json`: what an encoder's directory says about itself, and the proof that it is whole.

Needs no TensorFlow: an importer that streams weights into a directory writes the same file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from xtr_tf.config.schema import EncoderConfig, TokenizerConfig
from xtr_tf.errors import InputError

MANIFEST_FILE = "encoder.json"
WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.model"

_FORMAT = "xtr-tf encoder"
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What `encoder.json` holds.

    Attributes:
        encoder: The encoder's shape.
        tokenizer: Its tokenizer's settings, with the path of the directory's own model file.
        fingerprint: SHA-256, in hexadecimal, of the configuration, the weights and the
            tokenizer's model: two encoders with the same one give the same vectors.
    """

    encoder: EncoderConfig
    tokenizer: TokenizerConfig
    fingerprint: str


def write_manifest(directory: Path, encoder: EncoderConfig, tokenizer: TokenizerConfig) -> str:
    """Completes a directory that already holds the weights and the tokenizer's model.

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

    Raises:
        InputError: The directory is not an encoder's, is incomplete, or was changed.
    """
    content = _read_json(directory)
    settings = {name: content[name] for name in ("encoder", "tokenizer")}
    try:
        manifest = Manifest(
            encoder=EncoderConfig(**settings["encoder"]),
            tokenizer=TokenizerConfig(**settings["tokenizer"], model=str(directory / TOKENIZER_FILE)),
            fingerprint=content["fingerprint"],
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The encoder's {MANIFEST_FILE} cannot be understood ({error}); save the encoder again. "
            f"Received: {str(directory / MANIFEST_FILE)!r}."
        ) from error
    for name in (WEIGHTS_FILE, TOKENIZER_FILE):
        if not (directory / name).is_file():
            raise InputError(
                f"The encoder's {name} is missing; copy the whole directory. Received: {str(directory)!r}."
            )
    if _fingerprint(directory, settings) != manifest.fingerprint:
        raise InputError(
            "The encoder's files do not match its fingerprint: they are truncated or were changed; "
            f"copy the directory again. Received: {str(directory)!r}."
        )
    return manifest


def _read_json(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"An encoder's directory has a readable {MANIFEST_FILE}; give one that `xtr-tf` wrote. "
            f"Received: {str(directory)!r}."
        ) from error
    required = {"format", "version", "fingerprint", "encoder", "tokenizer"}
    if not isinstance(content, dict) or not required <= content.keys() or content["format"] != _FORMAT:
        raise InputError(
            f"{MANIFEST_FILE} does not describe an encoder of xtr-tf; give a directory that it wrote. "
            f"Received: {str(path)!r}."
        )
    if content["version"] != _VERSION:
        raise InputError(
            f"Only version {_VERSION} of an encoder's directory can be read; upgrade xtr-tf. "
            f"Received: version {content['version']!r} in {str(path)!r}."
        )
    return content


def _fingerprint(directory: Path, settings: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in (TOKENIZER_FILE, WEIGHTS_FILE):
        with (directory / name).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()

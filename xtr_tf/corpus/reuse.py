"""Vectors of an earlier directory that still hold: same text, same encoder, same settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.corpus.token_vectors import TokenVectors
from xtr_tf.errors import InputError


class Reuse:
    """Finds documents of an earlier directory by the hash of their text.

    Takes 40 bytes of memory a document.

    Args:
        directory: The earlier directory.
        encoder_fingerprint: Of the encoder now.
        settings: How vectors are made now.

    Raises:
        InputError: If the earlier vectors were made by another encoder or in another way.
    """

    def __init__(self, directory: Path, encoder_fingerprint: str, settings: Mapping[str, Any]) -> None:
        self.corpus = TokenVectors.open(directory)
        manifest = self.corpus.manifest
        if manifest.encoder_fingerprint != encoder_fingerprint:
            raise InputError(
                "Vectors can be reused only under the encoder that made them; encode without reuse. "
                f"Received: {str(directory)!r} of encoder {manifest.encoder_fingerprint[:12]}, "
                f"encoder {encoder_fingerprint[:12]}."
            )
        if manifest.settings != settings:
            changed = sorted(
                name
                for name in {*manifest.settings, *settings}
                if manifest.settings.get(name) != settings.get(name)
            )
            raise InputError(
                "Vectors can be reused only under the settings that made them; encode without reuse. "
                f"Received: {str(directory)!r}, which differs in {', '.join(changed)}."
            )

    def ordinals(self, content_hashes: Sequence[str]) -> np.ndarray:
        """`[len(content_hashes)]` int64: where each text was, or -1."""
        hashes, order = self._sorted_hashes
        wanted = np.array(content_hashes, "S32")
        found = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        return np.where(hashes[found] == wanted, order[found], -1)

    @cached_property
    def _sorted_hashes(self) -> tuple[np.ndarray, np.ndarray]:
        hashes = np.fromiter(
            (document.content_hash.encode() for document in self.corpus.documents()),
            "S32",
            count=self.corpus.num_documents,
        )
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

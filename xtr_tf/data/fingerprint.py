"""Short fingerprints of texts, to recognise equal ones on a device that knows no text."""

from __future__ import annotations

import hashlib

import numpy as np

NONE = np.zeros(2, np.int32)


def fingerprint(*parts: str) -> np.ndarray:
    """64 bits of a hash as two int32; the same in every process and never `NONE`."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    pair = np.frombuffer(digest, "<i4")
    return pair if pair.any() else np.ones(2, np.int32)

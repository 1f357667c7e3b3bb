"""Giving memory back to the system."""

from __future__ import annotations

import ctypes


def release_free_memory() -> None:
    """Returns what TensorFlow has freed to the operating system.

    Loading and optimising a graph, and freeing a model, leave tens of megabytes that the C library's
    allocator would otherwise keep. Takes milliseconds; does nothing where the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

"""Measures the memory of the process, and returns free memory to the system."""

from __future__ import annotations

import ctypes
from pathlib import Path

_MAPS, _STATUS = Path("/proc/self/maps"), Path("/proc/self/status")
_MADV_DONTNEED = 4  # <sys/mman.h> on Linux
_TENSORFLOW = "/libtensorflow_"


def peak_resident_bytes() -> int:
    """Returns the peak memory of the process; 0 if there is no `/proc`.

    Unlike `getrusage`, it does not include the memory of the parent process.
    """
    return _status("VmHWM")


def resident_bytes() -> int:
    """Returns the memory of the process; 0 if there is no `/proc`."""
    return _status("VmRSS")


def _status(field: str) -> int:
    if not _STATUS.is_file():
        return 0
    return next(int(line.split()[1]) << 10 for line in _STATUS.open() if line.startswith(field))


def release_free_memory() -> None:
    """Returns the memory that TensorFlow has freed to the operating system.

    Loading and optimising a graph, and freeing a model, leave tens of megabytes that the C library's
    allocator would otherwise keep. Takes milliseconds; does nothing where the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def release_unused_code() -> int:
    """Drops the pages of TensorFlow's code from the process, and returns the size of that code in bytes.

    Registering thousands of kernels touches code all over a library of 300 MB, most of which a model
    never runs. The code that it does run comes back from the page cache at the next call, within
    milliseconds. Does nothing if there is no `/proc`.
    """
    if not _MAPS.is_file():
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    total = 0
    for line in _MAPS.read_text().splitlines():
        addresses, permissions, *_, file = line.split(maxsplit=5)
        # Only code is the same as in the file. Data that is read-only now was written by the linker before.
        if permissions == "r-xp" and _TENSORFLOW in file:
            start, end = (int(address, 16) for address in addresses.split("-"))
            madvise(start, end - start, _MADV_DONTNEED)
            total += end - start
    return total

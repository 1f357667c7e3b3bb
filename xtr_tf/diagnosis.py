"""Checks of the machine and environment that `xtr-tf doctor` prints.

Reports, never repairs. A check that cannot be made is a finding, not an exception.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

REINSTALL = "install the locked environment again (make clean setup)."
_FREE_MEMORY_GB = 2.0
_FREE_DISK_GB = 2.0


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the diagnosis: what was looked at, what was seen, and what to do if it is wrong."""

    subject: str
    ok: bool
    detail: str
    remedy: str = ""


def diagnose(directory: str | Path = ".") -> list[Finding]:
    """Looks at the interpreter, the pins, the custom ops, the devices, memory and the disk of `directory`."""
    return [
        _check_python(),
        *_check_pins(),
        _check_import("tensorflow_text ops", _load_text_ops),
        _check_import("scann ops", _load_scann_ops),
        _check_devices(),
        _check_memory(),
        _check_disk(Path(directory)),
    ]


def _check_python() -> Finding:
    ok = sys.version_info[:2] == (3, 10)
    return Finding(
        "python", ok, platform.python_version(), "use Python 3.10, the newest that TFX 1.16 supports."
    )


def _check_pins() -> list[Finding]:
    """Compares every installed package that the distribution pins exactly."""
    findings = []
    for requirement in metadata.requires("xtr-tf") or []:
        pin = re.match(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)(.*)", requirement)
        if pin is None:
            continue
        name, wanted, condition = pin.groups()
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            if "extra ==" in condition:
                continue
            found = "missing"
        detail = found if found == wanted else f"{found}, pinned {wanted}"
        findings.append(Finding(name, found == wanted, detail, REINSTALL))
    return findings


def _load_text_ops() -> str:
    import tensorflow_text

    pieces = tensorflow_text.WhitespaceTokenizer().tokenize(["xtr tf"])
    return f"loaded, {pieces.flat_values.shape[0]} tokens from a trial"


def _load_scann_ops() -> str:
    import numpy as np
    from scann.scann_ops.py import scann_ops

    vectors = np.eye(16, dtype=np.float32)
    searcher = scann_ops.builder(vectors, 1, "dot_product").score_brute_force().build()
    neighbours, _ = searcher.search(vectors[3])
    if int(neighbours[0]) != 3:
        raise RuntimeError(f"a trial search returned {int(neighbours[0])} instead of 3")
    return "loaded, a trial search is right"


def _check_import(subject: str, load: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, True, load())
    except Exception as error:  # whatever a broken binary raises is what the user has to see
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Finding(subject, False, reason, REINSTALL)


def _check_devices() -> Finding:
    try:
        import tensorflow as tf

        devices = tf.config.list_physical_devices()
    except Exception as error:
        return Finding("devices", False, str(error).splitlines()[0], REINSTALL)
    kinds = [device.device_type for device in devices]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return Finding("devices", bool(kinds), f"{counts}; {os.cpu_count()} cores", REINSTALL)


def _check_memory() -> Finding:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError as error:
        return Finding("memory", False, str(error), "xtr-tf runs on Linux only.")
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}
    free, total = kilobytes["MemAvailable"] / 2**20, kilobytes["MemTotal"] / 2**20
    remedy = f"free some memory; at least {_FREE_MEMORY_GB:.0f} GB are needed."
    return Finding("memory", free >= _FREE_MEMORY_GB, f"{free:.1f} of {total:.1f} GB free", remedy)


def _check_disk(directory: Path) -> Finding:
    try:
        usage = shutil.disk_usage(directory)
    except OSError as error:
        return Finding("disk", False, str(error), "name a folder that exists.")
    free = usage.free / 2**30
    remedy = f"free some space; at least {_FREE_DISK_GB:.0f} GB are needed."
    return Finding("disk", free >= _FREE_DISK_GB, f"{free:.1f} GB free in {directory.resolve()}", remedy)

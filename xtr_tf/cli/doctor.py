"""Checks of the machine and environment that `xtr-tf doctor` prints.

Reports problems but never fixes them. A check that cannot be made is a finding, not an exception.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from xtr_tf.cli.progress import Depth

REINSTALL = "install the locked environment again (make clean setup), or xtr-tf with pip."
_DISTRIBUTION = "xtr-tf"
_FREE_MEMORY_GB = 2.0
_FREE_DISK_GB = 2.0


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the diagnosis: what was checked, what was found, and what to do if it is wrong."""

    subject: str
    ok: bool
    detail: str
    remedy: str = ""


def diagnose(directory: str | Path = ".", depth: Depth = Depth.fast) -> list[Finding]:
    """Checks the interpreter, packages, custom ops, devices, memory and the disk of `directory`.

    Args:
        directory: The folder whose free space is checked.
        depth: `fast` loads the libraries into TensorFlow's C library, as a server does; `full` imports Python
            TensorFlow, which takes longer than all the rest, and tries ops and devices with it.
    """
    if depth == Depth.full:
        loaded = [
            _check_import("tensorflow_text ops", _load_text_ops),
            _check_import("scann ops", _load_scann_ops),
            _check_devices(),
        ]
    else:
        loaded = [
            _check_import("tensorflow_text ops", lambda: _load_libraries("SentencepieceOp", "CaseFoldUTF8")),
            _check_import("scann ops", lambda: _load_libraries("Scann>TensorsToScann")),
        ]
    return [
        _check_python(),
        *_check_versions(),
        *_check_op_builds(),
        *loaded,
        _check_memory(),
        _check_disk(Path(directory)),
    ]


def _check_python() -> Finding:
    wanted = SpecifierSet(metadata.metadata(_DISTRIBUTION)["Requires-Python"])
    found = platform.python_version()
    return Finding(
        "python",
        wanted.contains(found, prereleases=True),
        found,
        f"use a Python that is {wanted}; the pipeline needs 3.10 or 3.11.",
    )


def _check_versions() -> list[Finding]:
    """Compares the installed packages with the requirements.

    Shows what is wrong, and the packages with an upper bound, which a newer release could break.
    """
    findings = []
    for requirement in _requirements():
        found = _installed(requirement.name)
        ok = found is not None and requirement.specifier.contains(found, prereleases=True)
        bounded = any(bound.operator in ("<", "==") for bound in requirement.specifier)
        if not ok or bounded:
            detail = str(found) if ok else f"{found or 'missing'}, wanted {requirement.specifier}"
            findings.append(Finding(requirement.name, ok, detail, REINSTALL))
    return findings


def _requirements() -> list[Requirement]:
    """Returns the requirements of the base, and of every extra whose packages are all installed."""
    declared = [Requirement(line) for line in metadata.requires(_DISTRIBUTION) or []]
    wanted = [requirement for requirement in declared if requirement.marker is None]
    for extra in metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra") or []:
        needed = [one for one in declared if one.marker and one.marker.evaluate({"extra": extra})]
        if all(_installed(requirement.name) for requirement in needed):
            wanted += needed
    return wanted


def _check_op_builds() -> list[Finding]:
    """Compares the TensorFlow that the custom ops were built for with the installed one."""
    findings = []
    tensorflow = _installed("tensorflow") or "missing"
    for name in ("scann", "tensorflow-text"):
        if _installed(name) is None:
            continue  # _check_versions reports it
        wanted = SpecifierSet()
        for requirement in map(Requirement, metadata.requires(name) or []):
            # ScaNN names its TensorFlow in an extra since 1.4.
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": "tf"})
            if requirement.name == "tensorflow" and applies:
                wanted &= requirement.specifier
        ok = tensorflow != "missing" and wanted.contains(tensorflow, prereleases=True)
        detail = f"built for tensorflow {wanted}" + ("" if ok else f", which is {tensorflow}")
        findings.append(Finding(f"{name} build", ok, detail, REINSTALL))
    return findings


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _load_libraries(*ops: str) -> str:
    from xtr_tf.runtime.c_library import load_op_library
    from xtr_tf.runtime.op_libraries import libraries_for

    libraries = libraries_for(set(ops))
    for library in libraries:
        load_op_library(str(library))
    return f"{len(libraries)} {'libraries load' if len(libraries) > 1 else 'library loads'}"


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
    except Exception as error:  # a broken binary can raise anything, and the user must see it
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


def doctor(
    directory: Annotated[str, typer.Argument(help="Folder whose free space is checked.")] = ".",
    check: Annotated[
        Depth, typer.Option(help="`full` also imports Python TensorFlow, tries its ops and lists devices.")
    ] = Depth.fast,
) -> None:
    """Check versions, op libraries, devices, memory and disk, and say how to fix what is wrong."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    findings = diagnose(directory, check)
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[red]wrong[/]"
        table.add_row(mark, finding.subject, escape(finding.detail))
    console = Console()
    console.print(table)
    remedies = [f"{finding.subject}: {finding.remedy}" for finding in findings if not finding.ok]
    for remedy in remedies:
        console.print(f"[red]remedy[/] {escape(remedy)}", highlight=False, soft_wrap=True)
    if remedies:
        raise typer.Exit(1)

"""The code of an earlier commit, for benchmarks that measure it and this one in the same run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_PACKAGES = ("xtr_tf", "serving", "tfx_pipeline")


def checked_out(commit: str, folder: Path) -> Path:
    """Writes the packages of a commit, unless they exist.

    Args:
        commit: Any name of a commit that git accepts.
        folder: The folder in which to make a folder `against`.

    Returns:
        The folder to put on Python's path.
    """
    tree = folder / "against" / commit
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        partial = tree.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        archive = subprocess.run(
            ["git", "archive", commit, *_PACKAGES],
            cwd=Path(__file__).resolve().parents[1],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        subprocess.run(["tar", "--extract"], cwd=partial, input=archive, check=True)
        partial.rename(tree)
    return tree

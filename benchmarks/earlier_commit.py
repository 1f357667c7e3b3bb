"""The code of an earlier commit, for benchmarks that measure it and this one in the same run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_PACKAGES = ("xtr_tf", "serving", "tfx_pipeline")


def checked_out(commit: str, folder: Path) -> Path:
    """Writes the packages of a commit, unless they are there.

    Args:
        commit: Anything that git knows a commit by.
        folder: Where to; a folder `against` is made in it.

    Returns:
        The folder to have on the path.
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

"""Which code made something: the package's version, and the commit where it is known."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from xtr_tf.version import __version__

#: Set in the pipeline's image, which has no checkout.
REVISION_VARIABLE = "XTR_TF_REVISION"


def code_version() -> str:
    """Returns such as `0.4.0 (commit 1a2b3c4)`; a changed checkout is told, too."""
    revision = os.environ.get(REVISION_VARIABLE) or _revision_of_checkout()
    return f"{__version__} (commit {revision})" if revision else __version__


def _revision_of_checkout() -> str:
    root = Path(__file__).resolve().parents[1]
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    command = [git, "-C", str(root), "describe", "--always", "--dirty=, with changes", "--exclude=*"]
    described = subprocess.run(command, capture_output=True, text=True, check=False)
    return described.stdout.strip() if described.returncode == 0 else ""

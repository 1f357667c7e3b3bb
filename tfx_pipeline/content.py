"""Hashes of files here and on object storage, so that a cache sees what was edited in place.

TensorFlow, which knows other file systems, is imported for remote files only. Knows nothing of TFX.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tfx_pipeline.config import is_remote

_USER_CREDENTIALS = ".config/gcloud/application_default_credentials.json"
_MACHINE = Path("/sys/class/dmi/id/product_name")


def content_hash(path: str) -> str:
    """SHA-256 of a file; empty if it is absent, or on Google's storage and nobody is logged in to read it."""
    if not is_remote(path):
        file = Path(path)
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    if path.startswith("gs://") and not has_google_account():
        return ""
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path, "rb") as remote:
            return hashlib.sha256(remote.read()).hexdigest()
    except tf.errors.NotFoundError:
        return ""


def has_google_account() -> bool:
    """Whether Google's libraries would find somebody to ask as, by looking at files only.

    Asking themselves takes them minutes where there is no network, and jobs are compiled there, too.
    """
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if named:
        return Path(named).is_file()
    if (Path.home() / _USER_CREDENTIALS).is_file():
        return True
    return _MACHINE.is_file() and _MACHINE.read_text(errors="replace").strip() == "Google Compute Engine"

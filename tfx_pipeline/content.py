"""Hashes of local files and of files on object storage, so that a cache notices edits in place.

Imports TensorFlow, which supports other file systems, only for remote files. Knows nothing about TFX.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tfx_pipeline.config import is_remote

_USER_CREDENTIALS = ".config/gcloud/application_default_credentials.json"
_MACHINE = Path("/sys/class/dmi/id/product_name")


def content_hash(path: str) -> str:
    """Hashes a file.

    Args:
        path: The file, local or remote.

    Returns:
        SHA-256 in hexadecimal. Empty if the file does not exist, or if it is on Google's storage and nobody
        is logged in.
    """
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
    """Returns whether Google's libraries would find credentials. Looks only at files.

    The libraries themselves would take minutes to answer without a network, and jobs are also compiled there.
    """
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if named:
        return Path(named).is_file()
    if (Path.home() / _USER_CREDENTIALS).is_file():
        return True
    return _MACHINE.is_file() and _MACHINE.read_text(errors="replace").strip() == "Google Compute Engine"

"""Work that outlives the run that began it: unfinished work, and where finished work lies.

TFX gives every execution a new output folder, so that what a killed run had done would be lost, and
knows no results but its own cache. Here work is kept by what it is made from: the same key finds
the same checkpoints and shards again, whichever run asks. Nothing in it is needed once a run has
ended well; removing it costs time, never correctness.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_pipeline.config import is_remote
from tfx_pipeline.mirror import mirrored


class WorkArea:
    """The work of one pipeline.

    Args:
        folder: Its folder, local or remote.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def unfinished(self, kind: str, key: str) -> Iterator[Path]:
        """Gives the folder of a piece of work, with what an earlier run left there.

        It is removed when the block ends well, and stays if it does not. The path is the same on
        every machine; a remote area is mirrored there.
        """
        place = posixpath.join(self._folder, kind, key)
        if not is_remote(self._folder):
            Path(place).mkdir(parents=True, exist_ok=True)
            yield Path(place)
            shutil.rmtree(place)
            return
        local = Path(tempfile.gettempdir(), "xtr-tf-work", kind, key)
        with mirrored(local, place):
            yield local
        shutil.rmtree(local)
        if tf.io.gfile.exists(place):
            tf.io.gfile.rmtree(place)

    def remember(self, kind: str, key: str, places: dict[str, str]) -> None:
        """Notes where finished work of a key lies, instead of what was noted before."""
        path = self._note(kind, key)
        tf.io.gfile.makedirs(posixpath.dirname(path))
        with tf.io.gfile.GFile(f"{path}.partial", "w") as file:
            file.write(json.dumps(places))
        tf.io.gfile.rename(f"{path}.partial", path, overwrite=True)

    def latest(self, kind: str, key: str) -> dict[str, str] | None:
        """Where finished work of a key lies; None if there is none, or not any more."""
        path = self._note(kind, key)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as file:
            places: dict[str, str] = json.loads(file.read())
        return places if all(tf.io.gfile.exists(place) for place in places.values()) else None

    def _note(self, kind: str, key: str) -> str:
        return posixpath.join(self._folder, "latest", f"{kind}-{key}.json")


def key_of(*parts: Any) -> str:
    """A short name for what work is made from."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]

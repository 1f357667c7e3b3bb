"""Publishes a collection in two phases: first every partition, then the file that names them.

    <base>/partition-0/<version>/    where servers of partition 0 look
    <base>/<version>/                `collection.json` and the model card of this version
    <base>/collection.json           the version that answers, which aggregators watch

A server does not answer with a partition of a version that no file names yet. If any step fails, all steps
are undone. This works on every file system that TensorFlow supports. On a local one, every directory appears
complete. This file knows nothing about TFX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from tfx_pipeline.config import is_remote
from tfx_pipeline.storage import copy_folder, local_input
from xtr_tf.errors import InputError
from xtr_tf.files import MARKER, checksums_of, writing
from xtr_tf.retriever.collection_file import COLLECTION_FILE, Collection, parse_collection
from xtr_tf.retriever.model_card import MODEL_CARD_FILE

_STAGING = ".pushing"
_MODEL_FILE = "saved_model.pb"


def is_collection(folder: str) -> bool:
    """Returns whether a folder, local or remote, contains a collection."""
    return bool(tf.io.gfile.exists(posixpath.join(folder, COLLECTION_FILE)))


def read_remote(folder: str) -> Collection:
    """Reads the `collection.json` of a folder.

    Args:
        folder: Folder of the collection, local or remote.

    Returns:
        The collection.
    """
    path = posixpath.join(folder, COLLECTION_FILE)
    with tf.io.gfile.GFile(path, "rb") as file:
        return parse_collection(file.read(), path)


def push_collection(source: str, base: str, version: int) -> str:
    """Publishes a collection.

    Args:
        source: Folder of the collection, with `collection.json`, a model card and the partitions.
        base: Folder that servers and aggregators watch.
        version: Version number that the collection gets there.

    Returns:
        The folder of the version.

    Raises:
        InputError: A partition is missing or incomplete, or there is no space. Nothing new is left in `base`.
    """
    collection = read_remote(source)
    pushed: list[str] = []
    folder = posixpath.join(base, str(version))
    try:
        with writing(Path(base)):
            for entry in collection.partitions:
                model = posixpath.join(source, entry.path, str(entry.version))
                if not tf.io.gfile.exists(posixpath.join(model, _MODEL_FILE)):
                    raise InputError(
                        "A partition of the collection has no model; nothing was pushed, export it again. "
                        f"Received: {model}."
                    )
                pushed.append(posixpath.join(base, entry.path, str(version)))
                _push_model(model, pushed[-1])
            entries = tuple(dataclasses.replace(entry, version=version) for entry in collection.partitions)
            text = dataclasses.replace(collection, version=version, partitions=entries).to_json()
            pushed.append(folder)
            with _appearing(folder) as place:
                _write(posixpath.join(place, COLLECTION_FILE), text)
                card = posixpath.join(source, MODEL_CARD_FILE)
                tf.io.gfile.copy(card, posixpath.join(place, MODEL_CARD_FILE))
            name_current(base, text)
    except BaseException:
        for place in pushed:
            _remove(place)
        raise
    return folder


def name_current(base: str, text: bytes) -> None:
    """Switches to a version at once.

    Args:
        base: Folder that aggregators watch.
        text: Content of the version's `collection.json`.
    """
    path = posixpath.join(base, COLLECTION_FILE)
    if is_remote(base):  # an object appears complete, and cannot be renamed
        _write(path, text)
        return
    _write(f"{path}.partial", text)
    tf.io.gfile.rename(f"{path}.partial", path, overwrite=True)


def _push_model(model: str, target: str) -> None:
    """Copies the model of a partition. `saved_model.pb` and the marker are written last."""
    with _appearing(target) as place:
        copy_folder(model, place, last=_MODEL_FILE)
        with local_input(model) as folder:
            listing = checksums_of(folder)
        _write(posixpath.join(place, MARKER), listing.encode())


@contextlib.contextmanager
def _appearing(target: str) -> Iterator[str]:
    """Yields a folder to write into. Where folders can be renamed, it gets its name once it is complete."""
    if is_remote(target):
        tf.io.gfile.makedirs(target)
        yield target
        return
    staging = posixpath.join(posixpath.dirname(target), _STAGING)
    if tf.io.gfile.exists(staging):  # left by a run that was killed
        tf.io.gfile.rmtree(staging)
    tf.io.gfile.makedirs(staging)
    try:
        yield staging
        tf.io.gfile.rename(staging, target)
    except BaseException:
        tf.io.gfile.rmtree(staging)
        raise


def _remove(place: str) -> None:
    """Removes a folder. Object stores have no folders, and may list files that no longer exist."""
    files = [posixpath.join(folder, name) for folder, _, names in tf.io.gfile.walk(place) for name in names]
    for remove, path in [*((tf.io.gfile.remove, file) for file in files), (tf.io.gfile.rmtree, place)]:
        with contextlib.suppress(tf.errors.NotFoundError):
            remove(path)


def _write(path: str, content: bytes) -> None:
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)

"""Artifacts as TFX's own executors would have left them, made without a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx.types import artifact_utils, standard_artifacts

_ids = itertools.count(1)


def new_artifact(kind: type, folder: Path) -> Any:
    """An artifact with a folder that exists and an id."""
    folder.mkdir(parents=True, exist_ok=True)
    artifact = kind()
    artifact.uri = str(folder)
    artifact.id = next(_ids)
    return artifact


def write_examples(folder: Path, splits: Mapping[str, Iterable[bytes]]) -> Any:
    """An `Examples` artifact with the given records."""
    artifact = new_artifact(standard_artifacts.Examples, folder)
    artifact.split_names = artifact_utils.encode_split_names(list(splits))
    for split, records in splits.items():
        directory = folder / f"Split-{split}"
        directory.mkdir()
        with tf.io.TFRecordWriter(str(directory / "data_tfrecord-00000-of-00001.gz"), "GZIP") as writer:
            for record in records:
                writer.write(record)
    return artifact

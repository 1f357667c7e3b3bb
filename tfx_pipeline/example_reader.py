"""Examples of an `Examples` artifact, one after the other in this process.

For what is small, such as a development set. Large splits are read by Beam.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from tfx.types import Artifact, artifact_utils
from tfx.utils import io_utils

from xtr_tf.errors import InputError


def read_split(examples: Artifact, split: str) -> Iterator[bytes]:
    """The serialised examples of a split.

    Raises:
        InputError: The artifact has no such split.
    """
    names = artifact_utils.decode_split_names(examples.split_names)
    if split not in names:
        raise InputError(f"The examples have the splits {', '.join(names)}. Received: split {split!r}.")
    pattern = io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split))
    files = sorted(tf.io.gfile.glob(pattern))
    yield from tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()


def read_all(examples: Artifact) -> Iterator[bytes]:
    """The serialised examples of every split."""
    for split in artifact_utils.decode_split_names(examples.split_names):
        yield from read_split(examples, split)

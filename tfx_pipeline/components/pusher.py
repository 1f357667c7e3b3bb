"""Pusher's executor. It does not push a version that is already in production.

A run without changes blesses the same model again, and a refresh of an unchanged corpus makes the same model
again. TFX would push it, and servers would reload what they already serve. TFX also copies into the version's
own folder, where a polling server finds an incomplete version. Here a version on a local file system appears
complete, and on all file systems a marker with the hashes of the files is written last. A collection is
published partition by partition and named last (`collection_push.py`).
"""

from __future__ import annotations

import json
import posixpath
import shutil
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx.components.pusher import executor
from tfx.proto import pusher_pb2
from tfx.types import Artifact, artifact_utils
from tfx.utils import proto_utils

from tfx_pipeline.components.collection_push import is_collection, push_collection
from tfx_pipeline.config import is_remote
from tfx_pipeline.storage import local_input
from xtr_tf.files import MARKER, checksums_of
from xtr_tf.retriever.model_card import MODEL_CARD_FILE

_STAGING = ".pushing"


class PushOnceExecutor(executor.Executor):
    """Pushes a blessed model, unless it is the same as the newest pushed version."""

    def Do(  # noqa: N802
        self,
        input_dict: dict[str, list[Artifact]],
        output_dict: dict[str, list[Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Called by TFX."""
        destination = pusher_pb2.PushDestination()
        proto_utils.json_to_proto(exec_properties["push_destination"], destination)
        base = destination.filesystem.base_directory
        newest = newest_version(base)
        if newest and self.CheckBlessing(input_dict) and _same(self.GetModelPath(input_dict), newest):
            pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
            self._MarkPushed(pushed, newest, posixpath.basename(newest))
            return
        if self.CheckBlessing(input_dict) and is_collection(self.GetModelPath(input_dict)):
            pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
            # Numbered as TFX numbers versions, but never with a number that exists.
            version = max(int(time.time()), int(posixpath.basename(newest) or 0) + 1)
            place = push_collection(self.GetModelPath(input_dict), base, version)
            self._MarkPushed(pushed, place, str(version))
        elif is_remote(base):
            super().Do(input_dict, output_dict, exec_properties)
            self._mark(input_dict, output_dict)
        else:
            self._push_whole(input_dict, output_dict, base, destination)

    def _push_whole(
        self,
        input_dict: dict[str, list[Artifact]],
        output_dict: dict[str, list[Artifact]],
        base: str,
        destination: Any,
    ) -> None:
        """Pushes under a name that servers ignore, and renames."""
        staging = Path(base, _STAGING)
        shutil.rmtree(staging, ignore_errors=True)  # a run that was killed may have left one
        destination.filesystem.base_directory = str(staging)
        settings = {"push_destination": proto_utils.proto_to_json(destination)}
        super().Do(input_dict, output_dict, settings)
        self._mark(input_dict, output_dict)
        pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
        if version := pushed.get_string_custom_property("pushed_version"):
            place = (staging / version).rename(Path(base, version))
            staging.rmdir()
            self._MarkPushed(pushed, str(place), version)

    def _mark(self, input_dict: dict[str, list[Artifact]], output_dict: dict[str, list[Artifact]]) -> None:
        """Writes the marker into the pushed version, if one was pushed."""
        pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
        destination = pushed.get_string_custom_property("pushed_destination")
        if not destination:
            return
        with local_input(self.GetModelPath(input_dict)) as folder:
            text = checksums_of(folder)
        with tf.io.gfile.GFile(posixpath.join(destination, MARKER), "w") as file:
            file.write(text)


def newest_version(base: str) -> str:
    """Finds the newest version of a model.

    Args:
        base: Base directory of the model, local or remote.

    Returns:
        The directory with the largest version number, or "" if there is none.
    """
    names = tf.io.gfile.listdir(base) if tf.io.gfile.isdir(base) else []
    numbers = [int(name.rstrip("/")) for name in names if name.rstrip("/").isdecimal()]
    return posixpath.join(base, str(max(numbers))) if numbers else ""


def _same(model: str, version: str) -> bool:
    """Returns whether both were made from the same encoder, corpus, index and code, at any time."""
    if not (tf.io.gfile.exists(posixpath.join(version, "saved_model.pb")) or is_collection(version)):
        return False
    first, second = _card(model), _card(version)
    return first is not None and first == second


def _card(folder: str) -> dict[str, Any] | None:
    path = posixpath.join(folder, MODEL_CARD_FILE)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        card: dict[str, Any] = json.loads(file.read())
    for name in ("created", "memory"):  # measured, so they differ slightly every time
        card.pop(name, None)
    return card

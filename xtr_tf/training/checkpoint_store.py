"""Checkpoints of a run on disk: whole or absent, the latest few and the best one kept."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from xtr_tf.encoder.staging import staged_directory
from xtr_tf.errors import InputError

_NAME = re.compile(r"step_(\d{9})")
_STATE, _INFO = "state", "checkpoint.json"


class StoredCheckpoint(NamedTuple):
    """A checkpoint on disk.

    Attributes:
        directory: Where it is.
        step: Updates made before it.
        metric: What decides which is best; NaN if it was not measured.
    """

    directory: Path
    step: int
    metric: float


class CheckpointStore:
    """The checkpoints of one run.

    A checkpoint is a folder that gets its name only when complete, so a run killed while writing
    leaves the earlier ones as they were.

    Args:
        directory: Folder of the checkpoints; made when the first is saved.
        state: What to save and restore.
        keep: How many of the latest to keep, beside the best.
    """

    def __init__(self, directory: Path, state: tf.train.Checkpoint, keep: int) -> None:
        self._directory = directory
        self._state = state
        self._keep = keep

    def save(self, step: int, metric: float = math.nan) -> None:
        """Writes a checkpoint, replacing one of the same step, and removes those no longer kept."""
        with staged_directory(self._directory / f"step_{step:09d}", overwrite=True) as staging:
            self._state.write(str(staging / _STATE))
            (staging / _INFO).write_text(json.dumps({"step": step, "metric": metric}))
        for leftover in self._directory.glob(".step_*"):  # of a process that was killed while writing
            shutil.rmtree(leftover)
        best = self.best()
        for checkpoint in self.all()[: -self._keep]:
            if best is None or checkpoint.step != best.step:
                shutil.rmtree(checkpoint.directory)

    def restore(self, checkpoint: StoredCheckpoint) -> None:
        """Sets the state to a checkpoint's."""
        try:
            self._state.read(str(checkpoint.directory / _STATE)).assert_consumed()
        except (AssertionError, ValueError, IndexError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(
                "A checkpoint does not fit this configuration or is damaged; remove it, or choose another "
                f"output folder. Received: {str(checkpoint.directory)!r}."
            ) from error

    def all(self) -> list[StoredCheckpoint]:
        """The checkpoints on disk, oldest first."""
        found = []
        for path in sorted(self._directory.glob("step_*")):
            if _NAME.fullmatch(path.name) and (path / _INFO).is_file():
                info = json.loads((path / _INFO).read_text())
                found.append(StoredCheckpoint(path, int(info["step"]), float(info["metric"])))
        return found

    def latest(self) -> StoredCheckpoint | None:
        """The one with the most updates, if there is any."""
        return next(reversed(self.all()), None)

    def best(self) -> StoredCheckpoint | None:
        """The one with the highest metric, the earliest of equals, if any was measured."""
        measured = [checkpoint for checkpoint in self.all() if not math.isnan(checkpoint.metric)]
        return max(measured, key=lambda checkpoint: checkpoint.metric, default=None)

"""The output folder of a run: its files, the rule that one folder has one run, and its checkpoints.

`train` resumes with `CheckpointStore.restore` of `latest()`. Knows files and a `tf.train.Checkpoint`, not its
content.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
import yaml

from xtr_tf.config.loading import read_yaml, to_mapping
from xtr_tf.config.training import RunConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, remove_unfinished, write_atomically

#: Settings that may change when a run continues: its end, the size of updates (a run that broke down needs
#: smaller ones), and settings that do not affect the weights of a step.
FREE_SETTINGS = {
    "steps",
    "decay_steps",
    "learning_rate",
    "gradient_clip",
    "distribution",
    "tpu",
    "steps_per_loop",
    "checkpoint_every",
    "keep_checkpoints",
    "evaluate_every",
    "log_every",
    "output",
}


class RunRecord:
    """Paths and small files of a run.

    Args:
        directory: The output folder.

    Attributes:
        checkpoints: Folder of the checkpoints.
        curves: Folder of the TensorBoard files.
        encoder: Folder of the trained encoder.
        tokenized: Folder of examples for hosts that do not run Python.
        failed_batch: File with the examples of a step that broke down.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.checkpoints = directory / "checkpoints"
        self.curves = directory / "tensorboard"
        self.encoder = directory / "encoder"
        self.tokenized = directory / "tokenized"
        self.failed_batch = directory / "failed_batch.json"

    def start(self, config: RunConfig) -> None:
        """Writes the configuration, or checks that it continues the run in the folder.

        Args:
            config: Configuration of the run.

        Raises:
            InputError: The folder has checkpoints of a run with another configuration.
        """
        path = self._directory / "config.yaml"
        settings = to_mapping(config)
        if path.exists() and any(self.checkpoints.glob("step_*")):
            changed = _differences(read_yaml(path), settings)
            if changed:
                raise InputError(
                    "The output folder holds a run with another configuration; choose another folder, or "
                    f"remove it. Received: {', '.join(changed)} changed, {str(self._directory)!r}."
                )
        self._write(path, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))

    def add_dev_metrics(self, step: int, metrics: dict[str, float]) -> None:
        """Appends the metrics of a step to `dev_metrics.jsonl`. Removes those of the same and later steps.

        Args:
            step: Number of updates made.
            metrics: Metrics by name.
        """
        path = self._directory / "dev_metrics.jsonl"
        earlier = path.read_text().splitlines() if path.exists() else []
        lines = [line for line in earlier if json.loads(line)["step"] < step]
        lines.append(json.dumps({"step": step, **metrics}, ensure_ascii=False))
        self._write(path, "\n".join(lines) + "\n")

    def save_failed_batch(self, step: int, examples: list[str]) -> None:
        """Writes the examples that ended a run to `failed_batch`.

        Args:
            step: Number of the step that failed.
            examples: Ids of its examples.
        """
        self._write(
            self.failed_batch, json.dumps({"step": step, "examples": examples}, ensure_ascii=False, indent=1)
        )

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns dotted names of relevant settings that differ. One that did not exist yet had its default."""
    names, defaults = [], to_mapping(RunConfig())
    for section, settings in after.items():
        for name, value in settings.items():
            if section == "training" and name in FREE_SETTINGS:
                continue
            if before.get(section, {}).get(name, defaults[section][name]) != value:
                names.append(f"{section}.{name}")
    return names


_NAME = re.compile(r"step_(\d{9})")
_STATE, _INFO = "state", "checkpoint.json"


class StoredCheckpoint(NamedTuple):
    """A checkpoint on disk.

    Attributes:
        directory: Folder of the checkpoint.
        step: Number of updates made before it.
        metric: Metric that decides which checkpoint is best, NaN if it was not measured.
    """

    directory: Path
    step: int
    metric: float


class CheckpointStore:
    """The checkpoints of one run.

    A checkpoint is a folder that gets its name only when it is complete, so a run that is killed while
    writing leaves the earlier ones intact.

    Args:
        directory: Folder of the checkpoints. Created when the first one is saved.
        state: State to save and restore.
        keep: Number of latest checkpoints to keep, in addition to the best one.
        options: Options with the device that reads and writes files. None uses the devices of the variables.
    """

    def __init__(
        self,
        directory: Path,
        state: tf.train.Checkpoint,
        keep: int,
        options: tf.train.CheckpointOptions | None = None,
    ) -> None:
        self._directory = directory
        self._state = state
        self._keep = keep
        self._options = options

    def save(self, step: int, metric: float = math.nan) -> None:
        """Writes a checkpoint, replaces one of the same step, and removes those that are no longer kept.

        Args:
            step: Number of updates made.
            metric: Metric on the development sets, NaN if it was not measured.
        """
        with atomic_directory(self._directory / f"step_{step:09d}", overwrite=True) as staging:
            self._state.write(str(staging / _STATE), options=self._options)
            (staging / _INFO).write_text(json.dumps({"step": step, "metric": metric}))
        remove_unfinished(self._directory)
        best = self.best()
        for checkpoint in self.all()[: -self._keep]:
            if best is None or checkpoint.step != best.step:
                shutil.rmtree(checkpoint.directory)

    def restore(self, checkpoint: StoredCheckpoint) -> None:
        """Sets the state to that of a checkpoint.

        Args:
            checkpoint: The checkpoint.

        Raises:
            InputError: The checkpoint is damaged, or does not match the configuration or this version.
        """
        try:
            self._state.read(str(checkpoint.directory / _STATE), options=self._options).assert_consumed()
        except (AssertionError, ValueError, IndexError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(
                "A checkpoint is damaged, or does not fit this configuration or this version; remove it, or "
                f"choose another output folder. Received: {str(checkpoint.directory)!r}."
            ) from error

    def all(self) -> list[StoredCheckpoint]:
        """Returns the checkpoints on disk, oldest first."""
        found = []
        for path in sorted(self._directory.glob("step_*")):
            if _NAME.fullmatch(path.name) and (path / _INFO).is_file():
                info = json.loads((path / _INFO).read_text())
                found.append(StoredCheckpoint(path, int(info["step"]), float(info["metric"])))
        return found

    def latest(self) -> StoredCheckpoint | None:
        """Returns the checkpoint with the most updates, or None."""
        return next(reversed(self.all()), None)

    def best(self) -> StoredCheckpoint | None:
        """Returns the checkpoint with the highest metric, the earliest of equals, or None if none has one."""
        measured = [checkpoint for checkpoint in self.all() if not math.isnan(checkpoint.metric)]
        return max(measured, key=lambda checkpoint: checkpoint.metric, default=None)

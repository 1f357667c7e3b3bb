"""The output folder of a run: what lies where, and that one folder holds one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from xtr_tf.config.loading import read_yaml, to_mapping
from xtr_tf.config.run import RunConfig
from xtr_tf.corpus.files import write_aside
from xtr_tf.errors import InputError

# What may change when a run continues, because it does not change the weights of a step.
_FREE = {
    "steps",
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
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.checkpoints = directory / "checkpoints"
        self.curves = directory / "tensorboard"
        self.encoder = directory / "encoder"

    def start(self, config: RunConfig) -> None:
        """Writes the configuration down, or checks that it continues the one written before."""
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
        """Appends a step's metrics to `dev_metrics.jsonl`, leaving out any of later steps."""
        path = self._directory / "dev_metrics.jsonl"
        earlier = path.read_text().splitlines() if path.exists() else []
        lines = [line for line in earlier if json.loads(line)["step"] < step]
        lines.append(json.dumps({"step": step, **metrics}, ensure_ascii=False))
        self._write(path, "\n".join(lines) + "\n")

    def save_failed_batch(self, text: str) -> Path:
        """Keeps what describes the batch that ended a run."""
        path = self._directory / "failed_batch.json"
        self._write(path, text)
        return path

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, text.encode())


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Dotted names of the settings that differ and matter."""
    names = []
    for section, settings in after.items():
        for name, value in settings.items():
            if section == "training" and name in _FREE:
                continue
            if before.get(section, {}).get(name) != value:
                names.append(f"{section}.{name}")
    return names

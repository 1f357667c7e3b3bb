"""From a path to the model under test that lies there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xtr_tf.encoder.manifest import MANIFEST_FILE
from xtr_tf.errors import InputError
from xtr_tf.evaluation.evaluator import Model
from xtr_tf.export.version_directory import versions_in

REPORT_FILE = "report.json"


def open_model(path: str | Path) -> Model:
    """Opens an encoder's directory, or an exported version, or the newest version of a base directory.

    Raises:
        InputError: It is none of them.
    """
    path = Path(path)
    if (path / MANIFEST_FILE).is_file():
        from xtr_tf.evaluation.encoder_model import EncoderModel

        return EncoderModel(path)
    if (path / "saved_model.pb").is_file() or versions_in(path):
        from xtr_tf.evaluation.index_model import IndexModel

        return IndexModel(path)
    raise InputError(
        f"A model is an encoder's directory (with {MANIFEST_FILE}), or an exported version (with "
        f"saved_model.pb), or a directory of numbered versions. Received: {str(path)!r}."
    )


def is_report(path: str | Path) -> bool:
    """Whether `path` is the folder of an earlier report."""
    return (Path(path) / REPORT_FILE).is_file()


def read_report(path: str | Path) -> dict[str, Any]:
    """Reads `report.json` of an earlier report.

    Raises:
        InputError: It cannot be read.
    """
    try:
        content: dict[str, Any] = json.loads((Path(path) / REPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"The earlier report cannot be read. Received: {str(path)!r}.") from error
    return content

"""Blessings as TFX's own components write them, with the reasons beside.

Pusher asks for the custom property `blessed`, LatestBlessedModelStrategy for `current_model_id`
as well. The reasons are a property, for `xtr-tf pipeline lineage`, and a file, for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tfx.components.evaluator import constants
from tfx.types import Artifact

from tfx_pipeline.local_directories import local_output

#: Custom property with one reason a line.
REASONS = "reasons"
REASONS_FILE = "reasons.txt"

_INFRA_FILES = ("INFRA_NOT_BLESSED", "INFRA_BLESSED")
_MODEL_FILES = (constants.NOT_BLESSED_FILE_NAME, constants.BLESSED_FILE_NAME)


def write_model_blessing(
    blessing: Artifact, blessed: bool, reasons: Sequence[str], model: Artifact, baseline: Artifact | None
) -> None:
    """Fills a `ModelBlessing`.

    Args:
        blessing: The artifact.
        blessed: Whether the model may be pushed.
        reasons: Why (not), a sentence each.
        model: Which was judged.
        baseline: Which it was compared with, if any.
    """
    _write(blessing, _MODEL_FILES[blessed], blessed, reasons)
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    if baseline is not None:
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline.uri)
        blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, baseline.id)


def write_infra_blessing(blessing: Artifact, blessed: bool, reasons: Sequence[str]) -> None:
    """Fills an `InfraBlessing`."""
    _write(blessing, _INFRA_FILES[blessed], blessed, reasons)


def refusals(blessings: Iterable[Artifact]) -> list[str]:
    """Why models were not blessed, a sentence each; nothing where all were."""
    return [
        reason
        for blessing in blessings
        if not blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY)
        for reason in blessing.get_string_custom_property(REASONS).splitlines()
    ]


def _write(blessing: Artifact, file: str, blessed: bool, reasons: Sequence[str]) -> None:
    with local_output(blessing.uri) as folder:
        Path(folder, REASONS_FILE).write_text("".join(f"{reason}\n" for reason in reasons), encoding="utf-8")
        Path(folder, file).touch()
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed))
    blessing.set_string_custom_property(REASONS, "\n".join(reasons))

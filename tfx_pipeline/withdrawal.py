"""Withdraws versions: the blessing is withdrawn, servers stop using the version, and it is not pushed again.

The metadata store records it in the artifacts of the push and of the blessing. A version whose directory was
moved away counts as withdrawn. It counts as blessed again when the directory is back. Does not import TFX.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from tfx_pipeline.config import PipelineConfig, is_remote
from tfx_pipeline.lineage import ArtifactRecord, Lineage
from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically
from xtr_tf.retriever.collection_file import COLLECTION_FILE, read_collection
from xtr_tf.retriever.model_card import MODEL_CARD_FILE

#: Folder next to the versions for withdrawn ones. Servers look only at numbers.
WITHDRAWN_FOLDER = ".withdrawn"
#: Custom properties of a push and of a blessing.
BECAUSE, WHEN, _REMOVED, _CONTENT = "withdrawn", "withdrawn_at", "withdrawn_by_removal", "withdrawn_content"
_REASONS, _REASONS_BEFORE = "reasons", "reasons_before"


@dataclasses.dataclass(frozen=True)
class Version:
    """A version that was pushed.

    Attributes:
        number: Number of the version.
        place: Directory that it was pushed to.
        present: Whether the directory exists.
        withdrawn: Why it was withdrawn, or "".
        record: Artifact of the push.
    """

    number: int
    place: Path
    present: bool
    withdrawn: str
    record: ArtifactRecord


def pushed_versions(lineage: Lineage) -> list[Version]:
    """Returns all versions that were pushed to local directories, each once, sorted by number."""
    found = {}
    for record in lineage.artifacts("PushedModel"):
        if record.properties.get("pushed") and not is_remote(str(record.properties["pushed_destination"])):
            place = Path(str(record.properties["pushed_destination"]))
            withdrawn = str(record.properties.get(BECAUSE, ""))
            found[place] = Version(int(place.name), place, place.is_dir(), withdrawn, record)
    return sorted(found.values(), key=lambda version: version.number)


def newest_present(folder: Path) -> int | None:
    """Finds the version that servers serve.

    Args:
        folder: Base directory of a model.

    Returns:
        The largest version number in the directory, or None if there is none.
    """
    names = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=None)


def identity_of(card: Mapping[str, Any]) -> str:
    """Identifies the content of a model.

    Args:
        card: Model card.

    Returns:
        A hash of the card without the time of creation.
    """
    content = {name: value for name, value in card.items() if name != "created"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def withdrawn_contents(lineage: Lineage) -> dict[str, str]:
    """Returns why versions were withdrawn, by `identity_of` their models.

    It prevents the same content from being blessed or pushed again.

    Args:
        lineage: The metadata store.

    Returns:
        One sentence per withdrawn content.
    """
    return {
        str(version.record.properties[_CONTENT]): f"Version {version.number} of the same content was "
        f"withdrawn: {version.withdrawn}"
        for version in pushed_versions(lineage)
        if version.withdrawn and version.record.properties.get(_CONTENT)
    }


def reject(config: PipelineConfig, database: Path, number: int, because: str) -> Version:
    """Withdraws a version.

    Args:
        config: Configuration of the pipeline.
        database: File of the metadata store.
        number: Number of the version.
        because: Reason, which `lineage` and `status` show.

    Returns:
        The version, as it was before.

    Raises:
        InputError: No run pushed the version, or it was withdrawn before.
    """
    versions = {version.number: version for version in pushed_versions(Lineage(database))}
    if number not in versions:
        known = ", ".join(map(str, versions)) or "none"
        raise InputError(f"No run pushed this version; pushed were: {known}. Received: {number}.")
    version = versions[number]
    if version.withdrawn and not version.record.properties.get(_REMOVED):
        raise InputError(
            f"The version was withdrawn before: {version.withdrawn.rstrip('.')}. Received: {number}."
        )
    _Writer(database).withdraw(version, because, by_removal=False)
    if version.present:
        _name_another(version.place)
        aside = Path(config.serving_folder, WITHDRAWN_FOLDER, str(number))
        aside.parent.mkdir(parents=True, exist_ok=True)
        version.place.rename(aside)
    return version


def _name_another(place: Path) -> None:
    """If a version is the collection that answers, switches aggregators back to the newest one before it."""
    current = place.parent / COLLECTION_FILE
    if not (place / COLLECTION_FILE).is_file() or read_collection(current).version != int(place.name):
        return
    others = sorted(int(path.parent.name) for path in place.parent.glob(f"[0-9]*/{COLLECTION_FILE}"))
    before = [number for number in others if number < int(place.name)]
    if before:
        write_atomically(current, (place.parent / str(before[-1]) / COLLECTION_FILE).read_bytes())
    else:
        current.unlink()


def roll_back(config: PipelineConfig, database: Path, because: str) -> tuple[Version, int]:
    """Withdraws the newest version, so that servers and the next run continue with the one before it.

    Args:
        config: The configuration.
        database: File of the metadata store.
        because: Reason, which `status` and `lineage` show.

    Returns:
        The version that was withdrawn, and the number of the version that is in production now.

    Raises:
        InputError: There is no version before the newest, or the newest cannot be withdrawn.
    """
    numbers = sorted(
        int(path.name) for path in Path(config.serving_folder).glob("*") if path.name.isdecimal()
    )
    if len(numbers) < 2:
        held = f"version {numbers[0]} only" if numbers else "none"
        raise InputError(
            "There is no version before the newest to go back to; `xtr-tf pipeline reject` takes the only "
            f"one away. Received: {held} in {config.serving_folder}."
        )
    return reject(config, database, numbers[-1], because), numbers[-2]


def note_moved_directories(config: PipelineConfig, database: Path) -> list[str]:
    """Withdraws versions whose directories were moved away, and blesses again those that are back.

    A missing version counts as moved away only if the newest version that exists is older. Otherwise it may
    have been deleted to save space.

    Args:
        config: The configuration.
        database: File of the metadata store.

    Returns:
        One sentence per version that changed.
    """
    if not database.is_file() or is_remote(config.serving_folder):
        return []
    newest = newest_present(Path(config.serving_folder))
    told = []
    for version in pushed_versions(Lineage(database)):
        by_removal = bool(version.record.properties.get(_REMOVED))
        if version.present and by_removal:
            _Writer(database).restore(version)
            told.append(f"Version {version.number} is back and counts again.")
        elif not version.present and not version.withdrawn and newest is not None and newest < version.number:
            because = f"its directory was moved away from {config.serving_folder}."
            _Writer(database).withdraw(version, because, by_removal=True)
            told.append(f"Version {version.number} counts as rolled back: {because}")
    return told


class _Writer:
    """Changes the records of runs. Nothing else does."""

    def __init__(self, database: Path) -> None:
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(database)
        connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE
        self._store = metadata_store.MetadataStore(connection)
        self._lineage = Lineage(database)

    def withdraw(self, version: Version, because: str, by_removal: bool) -> None:
        now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
        model = next(iter(self._lineage.inputs(version.record, "model")))
        noted: dict[str, str | int] = {BECAUSE: because, WHEN: now, _REMOVED: int(by_removal)}
        card = Path(model.uri, "Format-Serving", MODEL_CARD_FILE)
        if card.is_file():
            noted[_CONTENT] = identity_of(json.loads(card.read_text(encoding="utf-8")))
        self._change(version.record.id, noted)
        for blessing in self._blessings(model):
            before = str(blessing.properties.get(_REASONS, ""))
            reasons = f"Version {version.number} was withdrawn on {now[:10]}: {because}"
            self._change(blessing.id, noted | {"blessed": 0, _REASONS: reasons, _REASONS_BEFORE: before})

    def restore(self, version: Version) -> None:
        model = next(iter(self._lineage.inputs(version.record, "model")))
        cleared: dict[str, str | int] = {BECAUSE: "", WHEN: "", _REMOVED: 0, _CONTENT: ""}
        self._change(version.record.id, cleared)
        for blessing in self._blessings(model):
            reasons = str(blessing.properties.get(_REASONS_BEFORE, ""))
            self._change(blessing.id, cleared | {"blessed": 1, _REASONS: reasons})

    def _blessings(self, model: ArtifactRecord) -> list[ArtifactRecord]:
        results = self._lineage.results(model, "model")
        return [record for record in results if record.type == "ModelBlessing"]

    def _change(self, artifact_id: int, properties: Mapping[str, str | int]) -> None:
        (artifact,) = self._store.get_artifacts_by_id([artifact_id])
        for name, value in properties.items():
            if isinstance(value, int):
                artifact.custom_properties[name].int_value = value
            else:
                artifact.custom_properties[name].string_value = value
        self._store.put_artifacts([artifact])

"""Rolling back and rejecting versions, on records of pushes in a real metadata store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from typer.testing import CliRunner

from tfx_pipeline.config import PipelineConfig
from tfx_pipeline.lineage import METADATA_FILE, Lineage
from tfx_pipeline.unchanged import LastRun, find_unchanged, run_key
from tfx_pipeline.withdrawal import (
    identity_of,
    note_moved_directories,
    pushed_versions,
    reject,
    roll_back,
    withdrawn_contents,
)
from xtr_tf.cli.app import app
from xtr_tf.errors import InputError


class Records:
    """A pipeline's root with pushes, as TFX records them."""

    def __init__(self, folder: Path) -> None:
        self.config = PipelineConfig(root=str(folder / "root"), push_directory=str(folder / "models"))
        self.models = folder / "models"
        (folder / "root").mkdir()
        self.database = folder / "root" / METADATA_FILE
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(self.database)
        connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self._store = metadata_store.MetadataStore(connection)
        self._types = {
            name: self._store.put_artifact_type(mlmd.ArtifactType(name=name))
            for name in ("Model", "ModelBlessing", "PushedModel")
        }
        node = self._store.put_context_type(mlmd.ContextType(name="node"))
        (self._node,) = self._store.put_contexts([mlmd.Context(type_id=node, name="small.Component")])
        self._execution = self._store.put_execution_type(mlmd.ExecutionType(name="component"))

    def push(self, number: int) -> None:
        artifact = self.models.parent / f"artifact-{number}"
        for folder in (artifact / "Format-Serving", self.models / str(number)):
            folder.mkdir(parents=True)
            card = {"corpus": number, "created": f"day {number}"}
            (folder / "model_card.json").write_text(json.dumps(card))
            (folder / "saved_model.pb").write_bytes(b"graph")
        model = self._artifact("Model", str(artifact), encoder_fingerprint=f"encoder {number}")
        blessing = self._artifact(
            "ModelBlessing", "", blessed=1, current_model_id=model, reasons="It is good."
        )
        destination = str(self.models / str(number))
        pushed = self._artifact("PushedModel", "", pushed=1, pushed_destination=destination)
        self._executed(model, blessing)
        self._executed(model, pushed)

    def _artifact(self, kind: str, uri: str, **properties: Any) -> int:
        artifact = mlmd.Artifact(type_id=self._types[kind], uri=uri, state=mlmd.Artifact.LIVE)
        for name, value in properties.items():
            field = "int_value" if isinstance(value, int) else "string_value"
            setattr(artifact.custom_properties[name], field, value)
        return int(self._store.put_artifacts([artifact])[0])

    def _executed(self, given: int, made: int) -> None:
        (execution,) = self._store.put_executions([mlmd.Execution(type_id=self._execution)])
        association = mlmd.Association(execution_id=execution, context_id=self._node)
        self._store.put_attributions_and_associations([], [association])
        events = [
            mlmd.Event(execution_id=execution, artifact_id=given, type=mlmd.Event.INPUT),
            mlmd.Event(execution_id=execution, artifact_id=made, type=mlmd.Event.OUTPUT),
        ]
        events[0].path.steps.add().key = "model"
        self._store.put_events(events)

    def latest_encoder(self) -> str:
        model = Lineage(self.database).latest_blessed_model()
        return model.properties["encoder_fingerprint"] if model else ""

    def status(self) -> str:
        root, models = self.config.root, self.config.push_directory
        words = ["pipeline", "status", "--set", f"root={root}", "--set", f"push_directory={models}"]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        return result.output


@pytest.fixture
def records(tmp_path: Path) -> Records:
    found = Records(tmp_path)
    for number in (1, 2):
        found.push(number)
    return found


def versions_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.isdecimal())


def test_a_rollback_withdraws_the_newest_for_servers_and_for_the_next_run(records: Records) -> None:
    assert records.latest_encoder() == "encoder 2"
    taken, now = roll_back(records.config, records.database, "it finds nothing.")
    assert (taken.number, now) == (2, 1)
    assert versions_in(records.models) == ["1"]
    assert (records.models / ".withdrawn" / "2" / "saved_model.pb").is_file()
    assert records.latest_encoder() == "encoder 1"
    assert withdrawn_contents(Lineage(records.database)) == {
        identity_of({"corpus": 2}): "Version 2 of the same content was withdrawn: it finds nothing."
    }
    status = records.status()
    assert f"in production: {records.models / '1'}" in status
    assert "withdrawn: version 2, it finds nothing." in status
    with pytest.raises(InputError, match="no version before the newest to go back to"):
        roll_back(records.config, records.database, "again.")


def test_a_version_that_was_moved_away_counts_as_rolled_back_until_it_returns(
    records: Records, tmp_path: Path
) -> None:
    (records.models / "2").rename(tmp_path / "aside")
    assert "moved away: version 2; the next run counts it as rolled back" in records.status()
    (told,) = note_moved_directories(records.config, records.database)
    assert told.startswith("Version 2 counts as rolled back: its directory was moved away from")
    assert records.latest_encoder() == "encoder 1"
    assert note_moved_directories(records.config, records.database) == []
    (tmp_path / "aside").rename(records.models / "2")
    assert note_moved_directories(records.config, records.database) == ["Version 2 is back and counts again."]
    assert records.latest_encoder() == "encoder 2"
    assert withdrawn_contents(Lineage(records.database)) == {}


def test_old_versions_may_be_deleted(records: Records) -> None:
    import shutil

    shutil.rmtree(records.models / "1")
    assert note_moved_directories(records.config, records.database) == []
    shutil.rmtree(records.models)
    assert note_moved_directories(records.config, records.database) == []
    assert "in production: nothing; version 2 was pushed and is gone" in records.status()


def test_bad_requests_are_input_errors(records: Records) -> None:
    with pytest.raises(InputError, match=r"No run pushed this version; pushed were: 1, 2\. Received: 7"):
        reject(records.config, records.database, 7, "wrong.")
    reject(records.config, records.database, 1, "too old.")
    with pytest.raises(InputError, match="was withdrawn before: too old"):
        reject(records.config, records.database, 1, "too old.")
    assert [version.withdrawn for version in pushed_versions(Lineage(records.database))] == ["too old.", ""]


def test_a_rolled_back_version_is_not_built_again(records: Records) -> None:
    config, root = records.config, Path(records.config.root)
    roll_back(config, records.database, "it finds nothing.")
    key = run_key(config, "refresh", Lineage(records.database))
    LastRun(key, "", 2, 0, "report.html", ("It was good.",)).write(root)
    found = find_unchanged(config, "refresh", records.database)
    assert found is not None
    assert (found.pushed, found.refused) == ("", False)
    assert found.sentence == (
        "Nothing changed since version 2 was made, which was withdrawn (it finds nothing); version 1 stays "
        "in production, and nothing was run."
    )
    LastRun(key, "", 1, 0, "report.html", ()).write(root)
    production = find_unchanged(config, "refresh", records.database)
    assert production is not None
    assert production.pushed == str(records.models / "1")

"""Reads the metadata store: which runs there were, and what a model was made from.

Imports only ML Metadata, not TFX, so that the answers take a second. Never writes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from xtr_tf.errors import InputError

#: The store of a pipeline that runs on this machine, in its root.
METADATA_FILE = "metadata.sqlite"

_OUTPUT_EVENTS = (mlmd.Event.OUTPUT, mlmd.Event.DECLARED_OUTPUT)
_INPUT_EVENTS = (mlmd.Event.INPUT, mlmd.Event.DECLARED_INPUT)


@dataclasses.dataclass(frozen=True)
class ArtifactRecord:
    """An artifact in the store.

    Attributes:
        id: Id in the store.
        type: Name of its type, such as `Model`.
        uri: Folder of the artifact.
        producer: Id of the component that made it. Empty for an imported artifact.
        properties: Declared and custom properties together.
        depth: Steps upstream of the artifact that was asked for.
    """

    id: int
    type: str
    uri: str
    producer: str
    properties: dict[str, Any]
    depth: int = 0


@dataclasses.dataclass(frozen=True)
class ComponentRecord:
    """One execution of a component.

    Attributes:
        component: Id of the component.
        state: Name of the state, such as `COMPLETE`, `CACHED` or `FAILED`.
        started: Time when it began.
        seconds: Duration.
    """

    component: str
    state: str
    started: dt.datetime
    seconds: float


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """One run of the pipeline.

    Attributes:
        run_id: Id of the run.
        components: Executions of its components in the order they began.
    """

    run_id: str
    components: tuple[ComponentRecord, ...]

    @property
    def state(self) -> str:
        """`complete`, `failed`, or `interrupted` if a component has neither finished nor failed."""
        states = {component.state for component in self.components}
        if "FAILED" in states:
            return "failed"
        return "complete" if states <= {"COMPLETE", "CACHED"} else "interrupted"


class Lineage:
    """Answers questions about the runs recorded in a sqlite metadata store.

    Args:
        database: File of the store.

    Raises:
        InputError: The file does not exist.

    Example:
    ```python
    for run in Lineage(Path("out/pipeline/metadata.sqlite")).runs():
        print(run.run_id, run.state)
    ```
    """

    def __init__(self, database: Path) -> None:
        if not database.is_file():
            raise InputError(
                f"There is no metadata store; run the pipeline first, or name its root. Received: {database}."
            )
        config = mlmd.ConnectionConfig()
        config.sqlite.filename_uri = str(database)
        config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
        self._store = metadata_store.MetadataStore(config)
        self._artifact_types = {t.id: t.name for t in self._store.get_artifact_types()}

    def runs(self) -> list[RunRecord]:
        """Returns all runs, the newest last."""
        runs = []
        for context in self._store.get_contexts_by_type("pipeline_run"):
            executions = self._store.get_executions_by_context(context.id)
            components = sorted(map(self._component, executions), key=lambda record: record.started)
            runs.append(RunRecord(context.name, tuple(components)))
        return sorted(runs, key=lambda run: run.run_id)

    def artifacts(self, type_name: str) -> list[ArtifactRecord]:
        """Returns all live artifacts of a type, the newest last."""
        found = self._store.get_artifacts_by_type(type_name)
        live = [artifact for artifact in found if artifact.state == mlmd.Artifact.LIVE]
        return [self._artifact(artifact) for artifact in sorted(live, key=lambda a: a.id)]

    def latest_blessed_model(self) -> ArtifactRecord | None:
        """Returns the newest model whose blessing holds, as `LatestBlessedModelStrategy` does in a run."""
        blessed = {
            int(blessing.properties.get("current_model_id", 0))
            for blessing in self.artifacts("ModelBlessing")
            if blessing.properties.get("blessed")
        }
        models = [record for record in self.artifacts("Model") if record.id in blessed]
        return models[-1] if models else None

    def outputs(self, execution_id: int) -> list[ArtifactRecord]:
        """Returns the outputs of an execution, whether it made them or took them from the cache."""
        events = self._store.get_events_by_execution_ids([execution_id])
        ids = [event.artifact_id for event in events if event.type in _OUTPUT_EVENTS]
        return [self._artifact(artifact) for artifact in self._store.get_artifacts_by_id(ids)]

    def find(self, path: str) -> ArtifactRecord:
        """Finds the artifact with a folder, or with a pushed folder.

        Args:
            path: The folder.

        Returns:
            The newest such artifact.

        Raises:
            InputError: No run recorded an artifact there.
        """
        wanted = path.rstrip("/")
        for artifact in reversed(self._store.get_artifacts()):
            record = self._artifact(artifact)
            if wanted in (record.uri.rstrip("/"), str(record.properties.get("pushed_destination", ""))):
                return record
        raise InputError(
            "No run recorded an artifact there; give a version directory that was pushed, or an artifact's "
            f"folder. Received: {path}."
        )

    def upstream(self, artifact: ArtifactRecord) -> list[ArtifactRecord]:
        """Returns everything that `artifact` was made from, nearest first, without repetitions."""
        seen = {artifact.id}
        found: list[ArtifactRecord] = []
        frontier = [artifact.id]
        depth = 0
        while frontier:
            depth += 1
            makers = self._executions_of(frontier, _OUTPUT_EVENTS)
            inputs = {
                event.artifact_id
                for event in self._store.get_events_by_execution_ids(sorted(makers))
                if event.type in _INPUT_EVENTS
            }
            frontier = sorted(inputs - seen)
            seen |= inputs
            for source in self._store.get_artifacts_by_id(frontier):
                found.append(dataclasses.replace(self._artifact(source), depth=depth))
        return found

    def inputs(self, artifact: ArtifactRecord, key: str) -> list[ArtifactRecord]:
        """Returns the inputs of the execution that made `artifact`, by their key, such as `model`.

        Args:
            artifact: The artifact.
            key: Key of the component's input.

        Returns:
            The artifacts.
        """
        makers = self._executions_of([artifact.id], _OUTPUT_EVENTS)
        return self._artifacts_of(makers, _INPUT_EVENTS, key)

    def results(self, artifact: ArtifactRecord, key: str) -> list[ArtifactRecord]:
        """Returns the outputs of all executions that had `artifact` as an input, the newest last.

        Args:
            artifact: The artifact.
            key: Key of the component's input.

        Returns:
            The artifacts.
        """
        events = self._store.get_events_by_artifact_ids([artifact.id])
        users = {event.execution_id for event in events if event.type in _INPUT_EVENTS and _key(event) == key}
        return self._artifacts_of(users, _OUTPUT_EVENTS)

    def _artifacts_of(
        self, executions: Iterable[int], kinds: tuple[Any, ...], key: str | None = None
    ) -> list[ArtifactRecord]:
        events = self._store.get_events_by_execution_ids(sorted(executions))
        found = {event.artifact_id for event in events if event.type in kinds and key in (None, _key(event))}
        return [self._artifact(artifact) for artifact in self._store.get_artifacts_by_id(sorted(found))]

    def _executions_of(self, artifact_ids: Iterable[int], kinds: tuple[Any, ...]) -> set[int]:
        events = self._store.get_events_by_artifact_ids(list(artifact_ids))
        return {event.execution_id for event in events if event.type in kinds}

    def _component(self, execution: mlmd.Execution) -> ComponentRecord:
        started = dt.datetime.fromtimestamp(execution.create_time_since_epoch / 1000, dt.timezone.utc)
        elapsed = execution.last_update_time_since_epoch - execution.create_time_since_epoch
        state = mlmd.Execution.State.Name(execution.last_known_state)
        # For TFX, a resolver that finds nothing failed. In the first run of a pipeline that is normal.
        if state == "FAILED" and execution.type.endswith(".Resolver"):
            state = "COMPLETE"
        return ComponentRecord(self._node(execution.id), state, started, elapsed / 1000)

    def _node(self, execution_id: int) -> str:
        """Returns the component's id, without the pipeline's name that TFX puts before it."""
        for context in self._store.get_contexts_by_execution(execution_id):
            if context.type == "node":
                return str(context.name).rpartition(".")[2]
        return ""

    def _artifact(self, artifact: mlmd.Artifact) -> ArtifactRecord:
        makers = self._executions_of([artifact.id], _OUTPUT_EVENTS)
        properties = {
            name: getattr(value, value.WhichOneof("value"))
            for group in (artifact.properties, artifact.custom_properties)
            for name, value in group.items()
            if value.WhichOneof("value")
        }
        return ArtifactRecord(
            id=artifact.id,
            type=self._artifact_types.get(artifact.type_id, artifact.type),
            uri=artifact.uri,
            producer=self._node(min(makers)) if makers else "",
            properties=properties,
        )


def _key(event: mlmd.Event) -> str:
    """Returns the key of an artifact in the inputs or outputs of an execution."""
    return event.path.steps[0].key if event.path.steps else ""

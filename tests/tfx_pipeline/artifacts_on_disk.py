"""Writes artifacts in the format of TFX's executors, without running a pipeline."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import proto_utils

from tfx_pipeline.artifacts import write_model_blessing
from tfx_pipeline.components.pusher import PushOnceExecutor

_ids = itertools.count(1)

Artifacts = dict[str, list[Any]]


def new_artifact(kind: type, folder: Path) -> Any:
    """An artifact with a folder that exists and an id."""
    folder.mkdir(parents=True, exist_ok=True)
    artifact = kind()
    artifact.uri = str(folder)
    artifact.id = next(_ids)
    return artifact


def write_examples(folder: Path, splits: Mapping[str, Iterable[bytes]]) -> Any:
    """An `Examples` artifact with the given records."""
    artifact = new_artifact(standard_artifacts.Examples, folder)
    artifact.split_names = artifact_utils.encode_split_names(list(splits))
    for split, records in splits.items():
        directory = folder / f"Split-{split}"
        directory.mkdir()
        with tf.io.TFRecordWriter(str(directory / "data_tfrecord-00000-of-00001.gz"), "GZIP") as writer:
            for record in records:
                writer.write(record)
    return artifact


def run_in_container(
    executor: type, inputs: Artifacts, outputs: Artifacts, properties: Mapping[str, str], folder: Path
) -> dict[str, dict[str, Any]]:
    """Runs an executor as a container in Vertex AI does.

    Returns:
        What Vertex would record of each output.
    """
    from tfx.utils import name_utils

    from tfx_pipeline.runners.vertex_container import main

    given = {
        "inputs": {
            "artifacts": {key: {"artifacts": list(map(_in_vertex, own))} for key, own in inputs.items()},
            "parameters": {name: {"stringValue": value} for name, value in properties.items()},
        },
        "outputs": {
            "artifacts": {key: {"artifacts": list(map(_in_vertex, own))} for key, own in outputs.items()},
            "outputFile": str(folder / "task" / "executor_output.json"),
        },
    }
    path = name_utils.get_full_name(executor)
    main(["--executor_class_path", path, "--json_serialized_invocation_args", json.dumps(given)])
    recorded = json.loads((folder / "task" / "executor_output.json").read_text())["artifacts"]
    return {key: own["artifacts"][0]["metadata"] for key, own in recorded.items()}


def vertex_name(artifact: Any) -> str:
    """What Vertex calls an artifact."""
    return f"projects/p/locations/l/metadataStores/default/artifacts/{artifact.id}"


def _in_vertex(artifact: Any) -> dict[str, Any]:
    from tfx.orchestration.kubeflow.v2 import compiler_utils
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_entrypoint_utils

    schema = compiler_utils.get_artifact_schema(type(artifact))
    return {
        "name": vertex_name(artifact),
        "uri": artifact.uri,
        "type": {"instanceSchema": schema.decode() if isinstance(schema, bytes) else schema},
        "metadata": kubeflow_v2_entrypoint_utils._get_json_metadata_mapping(artifact),
    }


def push_model(model: Any, folder: Path, base: str, blessed: bool = True) -> Any:
    """Runs Pusher on a model, with its artifacts in `folder`, and returns the `PushedModel`."""
    blessing = new_artifact(standard_artifacts.ModelBlessing, folder / "blessing")
    write_model_blessing(blessing, blessed, ["because"], model, None)
    pushed = new_artifact(standard_artifacts.PushedModel, folder / "pushed")
    filesystem = pusher_pb2.PushDestination.Filesystem(base_directory=base)
    destination = proto_utils.proto_to_json(pusher_pb2.PushDestination(filesystem=filesystem))
    PushOnceExecutor().Do(
        {"model": [model], "model_blessing": [blessing]},
        {"pushed_model": [pushed]},
        {"push_destination": destination},
    )
    return pushed

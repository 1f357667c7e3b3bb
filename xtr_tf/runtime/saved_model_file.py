"""Reads the description in a SavedModel's directory, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from xtr_tf.errors import InputError
from xtr_tf.runtime.op_libraries import ops_of
from xtr_tf.runtime.protos import import_proto

SERVING_TAG = "serve"


def read_meta_graph(directory: Path) -> Any:
    """Returns the `tensorflow.MetaGraphDef` that servers load.

    Raises:
        InputError: The directory has no SavedModel, or an incomplete one. TensorFlow's loader accepts a
            model whose variables are missing, and fails at the first request.
    """
    file = directory / "saved_model.pb"
    if not file.is_file():
        raise InputError(f"A SavedModel's directory holds a file `saved_model.pb`. Received: {directory}.")
    try:
        message = import_proto("tensorflow.core.protobuf.saved_model_pb2").SavedModel.FromString(
            file.read_bytes()
        )
    except DecodeError:
        raise InputError(f"The file is not a SavedModel or is damaged. Received: {file}.") from None
    for meta_graph in message.meta_graphs:
        if list(meta_graph.meta_info_def.tags) == [SERVING_TAG]:
            break
    else:
        raise InputError(f"The SavedModel has no graph tagged `{SERVING_TAG}`. Received: {file}.")
    variables = directory / "variables" / "variables.index"
    if "VarHandleOp" in ops_of(meta_graph.graph_def) and not variables.is_file():
        raise InputError(f"The SavedModel's variables are missing; copy it whole. Received: {variables}.")
    return meta_graph

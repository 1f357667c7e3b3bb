"""The artifacts of this pipeline: its own types, the encoder in a model, and the content of blessings.

Vertex AI requires type names of the form `namespace.Type` and no declared properties, so everything worth
recording goes into custom properties. `blessing` decides which models are blessed, and why.
"""

from __future__ import annotations

import gzip
import json
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx.components.evaluator import constants
from tfx.dsl.io import fileio
from tfx.types import Artifact
from tfx.utils import path_utils

from tfx_pipeline.storage import local_input, local_output
from xtr_tf.errors import InputError
from xtr_tf.model.folder import MANIFEST_FILE
from xtr_tf.retriever.model_card import MODEL_CARD_FILE


class TokenVectorsArtifact(Artifact):
    """A corpus encoded to token vectors: the folder that `xtr-tf encode` writes."""

    TYPE_NAME = "xtr.TokenVectors"


class TokenIndexArtifact(Artifact):
    """A search index over token vectors: the folder that `xtr-tf index` writes."""

    TYPE_NAME = "xtr.TokenIndex"


class DataGateArtifact(Artifact):
    """Data that may be used for training and serving: the statistics that later data are compared with."""

    TYPE_NAME = "xtr.DataGate"


#: All types of this pipeline, to look one up by its name.
OWN_TYPES = (TokenVectorsArtifact, TokenIndexArtifact, DataGateArtifact)


#: Custom property of a blessing, with one reason per line.
REASONS = "reasons"
_REASONS_FILE = "reasons.txt"
_INFRA_FILES = ("INFRA_NOT_BLESSED", "INFRA_BLESSED")
_MODEL_FILES = (constants.NOT_BLESSED_FILE_NAME, constants.BLESSED_FILE_NAME)

#: Folder of the encoder in the artifact of an exported retriever, next to the SavedModel.
ENCODER_FOLDER = "encoder"


def encoder_folder(model: Path) -> Path:
    """Returns the directory of the encoder in a model artifact.

    Args:
        model: Folder of the artifact.

    Returns:
        The directory of the encoder.

    Raises:
        InputError: The artifact has no encoder.
    """
    return Path(_encoder_uri(str(model)))


@contextmanager
def local_encoder(uri: str) -> Iterator[Path]:
    """Provides a local directory with the encoder of a model artifact.

    Only the encoder is downloaded from a remote artifact.

    Args:
        uri: Folder of the artifact, local or remote.

    Yields:
        The directory of the encoder.

    Raises:
        InputError: The artifact has no encoder.
    """
    with local_input(_encoder_uri(uri)) as folder:
        yield folder


def _encoder_uri(uri: str) -> str:
    for folder in (uri, posixpath.join(uri, ENCODER_FOLDER), path_utils.serving_model_dir(uri)):
        if tf.io.gfile.exists(posixpath.join(folder, MANIFEST_FILE)):
            return folder
    raise InputError(
        f"A model of this pipeline holds an encoder's directory; train or export it again. Received: {uri}."
    )


def read_model_card(uri: str) -> dict[str, Any]:
    """Reads the model card of an exported model.

    Args:
        uri: Folder of the model's artifact, local or remote.

    Returns:
        The card, or an empty dictionary if the model has none.
    """
    path = posixpath.join(path_utils.serving_model_dir(uri), MODEL_CARD_FILE)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        card: dict[str, Any] = json.loads(file.read())
    return card


_DOCUMENTS_FILE = "documents.txt.gz"


def write_document_ids(model: Path, ids: Iterable[str]) -> None:
    """Writes the ids of a model's documents into its artifact, so that a later model can be compared with it.

    Args:
        model: Folder of the artifact.
        ids: Ids of the documents.
    """
    lines = "".join(f"{json.dumps(own)}\n" for own in ids)
    Path(model, _DOCUMENTS_FILE).write_bytes(gzip.compress(lines.encode(), mtime=0))


def read_document_ids(uri: str) -> set[str] | None:
    """Reads the ids that `write_document_ids` wrote.

    Args:
        uri: Folder of the artifact, local or remote.

    Returns:
        Ids of the documents, or None if the model was exported before ids were written.
    """
    path = posixpath.join(uri, _DOCUMENTS_FILE)
    if not fileio.exists(path):
        return None
    with fileio.open(path, "rb") as file:
        return set(map(json.loads, gzip.decompress(file.read()).decode().splitlines()))


def write_model_blessing(
    blessing: Artifact, blessed: bool, reasons: Sequence[str], model: Artifact, baseline: Artifact | None
) -> None:
    """Fills a `ModelBlessing`.

    Args:
        blessing: The artifact to fill.
        blessed: Whether the model may be pushed.
        reasons: Why it may or may not be pushed, one sentence each.
        model: The model that was judged.
        baseline: The model that it was compared with, if any.
    """
    _write(blessing, _MODEL_FILES[blessed], blessed, reasons)
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    if baseline is not None:
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline.uri)
        blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, baseline.id)


def write_infra_blessing(blessing: Artifact, blessed: bool, reasons: Sequence[str]) -> None:
    """Fills an `InfraBlessing`.

    Args:
        blessing: The artifact to fill.
        blessed: Whether the model passed.
        reasons: Why it passed or not, one sentence each.
    """
    _write(blessing, _INFRA_FILES[blessed], blessed, reasons)


def refusals(blessing: Artifact) -> list[str]:
    """Returns why a model was not blessed, one sentence per reason. The list is empty if it was blessed."""
    if blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY):
        return []
    return list(blessing.get_string_custom_property(REASONS).splitlines())


def _write(blessing: Artifact, file: str, blessed: bool, reasons: Sequence[str]) -> None:
    with local_output(blessing.uri) as folder:
        Path(folder, _REASONS_FILE).write_text("".join(f"{reason}\n" for reason in reasons), encoding="utf-8")
        Path(folder, file).touch()
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed))
    blessing.set_string_custom_property(REASONS, "\n".join(reasons))

"""What artifacts of this pipeline look like: types of its own, the encoder in a model, what blessings hold.

Vertex asks for type names of the form `namespace.Type` and for no declared properties: what is worth
recording goes into custom properties. Who blesses, and why, is in `blessing`.
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
    """Data that may be trained on and served: its statistics, which the next data are compared with."""

    TYPE_NAME = "xtr.DataGate"


#: All of them, for those who must find a type by its name.
OWN_TYPES = (TokenVectorsArtifact, TokenIndexArtifact, DataGateArtifact)


#: Custom property of a blessing, with one reason per line.
REASONS = "reasons"
_REASONS_FILE = "reasons.txt"
_INFRA_FILES = ("INFRA_NOT_BLESSED", "INFRA_BLESSED")
_MODEL_FILES = (constants.NOT_BLESSED_FILE_NAME, constants.BLESSED_FILE_NAME)

#: Folder of the encoder in the artifact of an exported retriever, next to the SavedModel.
ENCODER_FOLDER = "encoder"


def encoder_folder(model: Path) -> Path:
    """The encoder's directory of a model artifact.

    Args:
        model: The artifact's folder.

    Raises:
        InputError: There is none.
    """
    return Path(_encoder_uri(str(model)))


@contextmanager
def local_encoder(uri: str) -> Iterator[Path]:
    """Gives the encoder's directory of a model artifact, and fetches no more of a remote one than that.

    Args:
        uri: The artifact's folder, local or remote.

    Raises:
        InputError: There is none.
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
    """The card of an exported model's artifact, local or remote; nothing if it has none."""
    path = posixpath.join(path_utils.serving_model_dir(uri), MODEL_CARD_FILE)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        card: dict[str, Any] = json.loads(file.read())
    return card


_DOCUMENTS_FILE = "documents.txt.gz"


def write_document_ids(model: Path, ids: Iterable[str]) -> None:
    """Leaves in a model's artifact which documents it has, for those who compare it with a later one.

    Args:
        model: The artifact's folder.
        ids: Of its documents.
    """
    lines = "".join(f"{json.dumps(own)}\n" for own in ids)
    Path(model, _DOCUMENTS_FILE).write_bytes(gzip.compress(lines.encode(), mtime=0))


def read_document_ids(uri: str) -> set[str] | None:
    """What `write_document_ids` wrote; None for a model of before it did."""
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
    """Fills an `InfraBlessing`.

    Args:
        blessing: The artifact.
        blessed: Whether the model passed.
        reasons: Sentences.
    """
    _write(blessing, _INFRA_FILES[blessed], blessed, reasons)


def refusals(blessing: Artifact) -> list[str]:
    """Why a model was not blessed, a sentence each; nothing if it was."""
    if blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY):
        return []
    return list(blessing.get_string_custom_property(REASONS).splitlines())


def _write(blessing: Artifact, file: str, blessed: bool, reasons: Sequence[str]) -> None:
    with local_output(blessing.uri) as folder:
        Path(folder, _REASONS_FILE).write_text("".join(f"{reason}\n" for reason in reasons), encoding="utf-8")
        Path(folder, file).touch()
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed))
    blessing.set_string_custom_property(REASONS, "\n".join(reasons))

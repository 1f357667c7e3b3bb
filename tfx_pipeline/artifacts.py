"""The artifact types that only a token retriever needs, beside TFX's own.

Vertex asks for names of the form `namespace.Type` and for no declared properties: what is worth
recording goes into custom properties.
"""

from __future__ import annotations

from pathlib import Path

from tfx.types.artifact import Artifact
from tfx.utils import path_utils

from xtr_tf.errors import InputError
from xtr_tf.model.folder import MANIFEST_FILE


class TokenVectors(Artifact):
    """A corpus encoded to token vectors: the folder that `xtr-tf encode` writes."""

    TYPE_NAME = "xtr.TokenVectors"


class TokenIndex(Artifact):
    """A search index over token vectors: the folder that `xtr-tf index` writes."""

    TYPE_NAME = "xtr.TokenIndex"


class DataGate(Artifact):
    """Data that may be trained on and served: its statistics, which the next data are compared with."""

    TYPE_NAME = "xtr.DataGate"


#: All of them, for those who must find a type by its name.
OWN_TYPES = (TokenVectors, TokenIndex, DataGate)


#: Folder of the encoder in the artifact of an exported retriever, beside the SavedModel.
ENCODER_FOLDER = "encoder"


def encoder_folder(model: Path) -> Path:
    """The encoder's directory of a model artifact.

    Args:
        model: The artifact's folder.

    Raises:
        InputError: There is none.
    """
    for folder in (model, model / ENCODER_FOLDER, Path(path_utils.serving_model_dir(str(model)))):
        if (folder / MANIFEST_FILE).is_file():
            return folder
    raise InputError(
        f"A model of this pipeline holds an encoder's directory; train or export it again. Received: {model}."
    )

"""Where the encoder is within a `Model`: the Trainer's own, an imported one, or an exported retriever's."""

from __future__ import annotations

from pathlib import Path

from tfx.utils import path_utils

from xtr_tf.encoder.manifest import MANIFEST_FILE
from xtr_tf.errors import InputError

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

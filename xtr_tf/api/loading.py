"""`load` turns a name, a folder or a Hugging Face id into a model; `open` opens an exported index.

Imports no TensorFlow before a model is loaded.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from xtr_tf.checkpoints.hub import fetch_encoder, is_hub_id
from xtr_tf.errors import InputError
from xtr_tf.model.folder import MANIFEST_FILE
from xtr_tf.model.shipped import DEFAULT_MODEL, shipped_models
from xtr_tf.retriever.versions import versions_in

if TYPE_CHECKING:
    from xtr_tf.api.index import OpenedIndex
    from xtr_tf.api.model import Model
    from xtr_tf.config.model import Dtype

# Hides TensorFlow's log lines about the processor; must be set before it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def load(
    model: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    projection_seed: int | None = None,
    dtype: Dtype | None = None,
    progress: bool = True,
) -> Model:
    """Loads a model.

    Args:
        model: The directory of an encoder; the name of a model that comes with xtr-tf; or the Hugging Face
            id of a T5, mT5 or XTR checkpoint or of an encoder directory, such as `google/mt5-small`. By
            default the multilingual model that comes with xtr-tf.
        revision: Branch, tag or commit on the Hub; the main branch by default.
        projection_seed: Initialises a random projection for a Hub checkpoint without one, such as T5 or mT5.
            Fine-tune such a model before you search with it.
        dtype: The dtype policy to compute with, `float32` or `mixed_bfloat16`; by default the model's own.
        progress: Whether to show the progress of downloads.

    Returns:
        The model.

    Raises:
        InputError: There is no such model, or it cannot be loaded.

    Example:
        >>> xtr_tf.load()
        <xtr_tf model 'mxtr_tiny': 4 layers, 256 wide, 79,135 pieces, vectors of 128>
    """
    directory, name = find_encoder(model, revision, projection_seed, progress)
    from xtr_tf.api.model import Model

    return Model(directory, name, dtype)


def find_encoder(
    model: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    projection_seed: int | None = None,
    progress: bool = True,
) -> tuple[Path, str]:
    """Finds the directory of an encoder as `load` does, and downloads it if necessary.

    Args:
        model: A directory, the name of a shipped model, or an id on the Hugging Face Hub; the default model
            if None.
        revision: Branch, tag or commit on the Hub.
        projection_seed: Initialises a random projection for a Hub checkpoint without one.
        progress: Whether to show progress.

    Returns:
        The directory of the encoder, and the name of the model.

    Raises:
        InputError: There is no such model.
    """
    name = DEFAULT_MODEL if model is None else os.fspath(model)
    path = Path(name)
    if (path / MANIFEST_FILE).is_file():
        return path, path.resolve().name
    shipped = shipped_models()
    if name in shipped:
        return shipped[name], name
    if (path / "saved_model.pb").is_file() or versions_in(path):
        raise InputError(
            f"This is an exported model with its own index; open it with `xtr_tf.open`. Received: {name!r}."
        )
    if path.exists():
        raise InputError(
            f"The directory of an encoder has an {MANIFEST_FILE}; `xtr-tf checkpoint import` makes one from "
            f"a checkpoint. Received: {name!r}."
        )
    if is_hub_id(name):
        return fetch_encoder(name, revision, projection_seed, progress), name
    raise InputError(
        f"A model is the directory of an encoder, one of {', '.join(sorted(shipped))}, or an id on the "
        f"Hugging Face Hub such as google/mt5-small. Received: {name!r}."
    )


def open(path: str | os.PathLike[str]) -> OpenedIndex:  # noqa: A001
    """Opens an exported index. It takes about a second and never imports Python TensorFlow.

    Args:
        path: The directory of a version, or a base directory, whose newest version is opened.

    Returns:
        The index. Its documents cannot change.

    Raises:
        InputError: There is no exported model, or it cannot be loaded.

    Example:
        >>> xtr_tf.open("out/models").search("How deep is Lake Baikal?")[0].id
        'baikal'
    """
    if (Path(path) / MANIFEST_FILE).is_file():
        raise InputError(
            "This is an encoder without an index; load it with `xtr_tf.load` and index documents with it. "
            f"Received: {os.fspath(path)!r}."
        )
    from xtr_tf.api.index import OpenedIndex

    return OpenedIndex.newest(os.fspath(path))

"""Finds out the format of a checkpoint, and opens it, in one file or in shards.

Must not know what an encoder needs: it lists all tensors under their own names.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.checkpoints.mesh_tensorflow import read_mesh_tensorflow
from xtr_tf.checkpoints.naming import HUGGING_FACE, MESH_TENSORFLOW, T5X, Naming
from xtr_tf.checkpoints.safetensors import read_safetensors
from xtr_tf.checkpoints.t5x import read_t5x
from xtr_tf.checkpoints.torch_file import read_torch
from xtr_tf.errors import InputError

PROJECTION_FOLDER = "2_Dense"
TOKENIZER_FILES = ("spiece.model", "sentencepiece.model", "tokenizer.model")
_GIN_FILES = ("operative_config.gin", "config.gin")
# In order of preference, if a folder has several.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of another project.

    Attributes:
        path: Its path.
        naming: How its tensors are named.
        tensors: All its tensors by name, including those that no encoder needs.
        config_file: Its description, `config.json` or a gin file, if there is one.
        tokenizer: Its SentencePiece model, if there is one.
    """

    path: Path
    naming: Naming
    tensors: dict[str, LazyTensor]
    config_file: Path | None = None
    tokenizer: Path | None = None


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Opens a checkpoint of Hugging Face, Mesh-TensorFlow or T5X.

    Args:
        path: A folder as published, one weight file in it, or the prefix of a TensorFlow checkpoint
            such as `mt5_small/model.ckpt-1000000`.

    Raises:
        InputError: There is no checkpoint at this path, or it is damaged.
    """
    path = Path(path)
    prefix = path.with_suffix("") if path.suffix == ".index" else path
    if Path(f"{prefix}.index").is_file():
        return _open_mesh_tensorflow(prefix)
    if path.is_file():
        return _open_hugging_face(path)
    if not path.is_dir():
        raise InputError(f"There is no checkpoint at this path; check the path. Received: {str(path)!r}.")
    for name in WEIGHT_FILES:
        if (path / name).is_file():
            return _open_hugging_face(path / name)
    if prefixes := sorted(path.glob("*.index")):
        if len(prefixes) > 1:
            raise InputError(
                "The folder holds several TensorFlow checkpoints; give the path of one. "
                f"Received: {[prefix.stem for prefix in prefixes]!r} in {str(path)!r}."
            )
        return _open_mesh_tensorflow(prefixes[0].with_suffix(""))
    return _open_t5x(_latest_step(path))


def _open_hugging_face(file: Path) -> Checkpoint:
    folder = file.parent
    tensors = _read_file(file)
    for name in ("model.safetensors", "pytorch_model.bin"):
        projection = folder / PROJECTION_FOLDER / name
        if projection.is_file():
            found = _read_file(projection)
            tensors |= {f"{PROJECTION_FOLDER}/{key}": tensor for key, tensor in found.items()}
            break
    return Checkpoint(
        folder, HUGGING_FACE, tensors, _first(folder, ("config.json",)), _first(folder, TOKENIZER_FILES)
    )


def _read_file(file: Path) -> dict[str, LazyTensor]:
    if file.name.endswith(".safetensors.index.json"):
        return read_shards(file, read_safetensors)
    if file.name.endswith(".bin.index.json"):
        return read_shards(file, read_torch)
    if file.suffix == ".safetensors":
        return read_safetensors(file)
    if file.suffix == ".bin":
        return read_torch(file)
    raise InputError(
        f"A weight file must be named as one of {', '.join(WEIGHT_FILES)}, or have such a suffix. "
        f"Received: {str(file)!r}."
    )


def _open_mesh_tensorflow(prefix: Path) -> Checkpoint:
    folder = prefix.parent
    return Checkpoint(
        prefix,
        MESH_TENSORFLOW,
        read_mesh_tensorflow(prefix),
        _first(folder, _GIN_FILES),
        _first(folder, TOKENIZER_FILES),
    )


def _open_t5x(folder: Path) -> Checkpoint:
    if not (folder / "checkpoint").is_file() and not any(folder.glob("target.*/.zarray")):
        raise InputError(
            f"The folder has no checkpoint: none of {', '.join(WEIGHT_FILES)}, no `*.index` of "
            f"TensorFlow, no `target.*` of T5X. Received: {str(folder)!r}."
        )
    nearby = [_first(place, _GIN_FILES) for place in (folder, folder.parent)]
    return Checkpoint(
        folder,
        T5X,
        read_t5x(folder),
        next((file for file in nearby if file), None),
        _first(folder, TOKENIZER_FILES),
    )


def _latest_step(folder: Path) -> Path:
    """Returns the newest `checkpoint_N` in a folder of T5X, or the folder itself if it has none."""
    steps = {
        int(match[1]): child
        for child in folder.iterdir()
        if child.is_dir() and (match := re.fullmatch(r"checkpoint_(\d+)", child.name))
    }
    return steps[max(steps)] if steps else folder


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_shards(index: Path, read_file: Callable[[Path], dict[str, LazyTensor]]) -> dict[str, LazyTensor]:
    """Lists the tensors of all shards that an index names.

    Args:
        index: A `*.index.json` file with a `weight_map` from tensor names to file names.
        read_file: Reads one shard.

    Returns:
        Tensors by name; none is read yet.

    Raises:
        InputError: The index is malformed, or shards or tensors that it names are absent.
    """
    try:
        weight_map = dict(json.loads(index.read_text("utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The index of a sharded checkpoint must be JSON with a `weight_map`. Received: {str(index)!r}."
        ) from error
    files = sorted(set(map(str, weight_map.values())))
    outside = [file for file in files if Path(file).name != file]
    absent = [file for file in files if not (index.parent / file).is_file()]
    if outside or absent:
        raise InputError(
            "Every shard must be next to the index that names it; download those that are missing. "
            f"Received: {sorted({*outside, *absent})!r} in {str(index)!r}."
        )
    tensors: dict[str, LazyTensor] = {}
    for file in files:
        tensors.update(read_file(index.parent / file))
    lost = sorted(set(weight_map) - set(tensors))
    if lost:
        raise InputError(
            f"The index names tensors that are in no shard; download the shards again. Received: {lost!r}."
        )
    return tensors

"""Reads a checkpoint that Hugging Face split into several files with an index beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.errors import InputError


def read_shards(index: Path, read_file: Callable[[Path], dict[str, LazyTensor]]) -> dict[str, LazyTensor]:
    """Lists the tensors of all shards that an index names.

    Args:
        index: A `*.index.json` file with a `weight_map` from tensor names to file names.
        read_file: Reads one shard.

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
            "Every shard must lie beside the index that names it; fetch those that are missing. "
            f"Received: {sorted({*outside, *absent})!r} in {str(index)!r}."
        )
    tensors: dict[str, LazyTensor] = {}
    for file in files:
        tensors.update(read_file(index.parent / file))
    lost = sorted(set(weight_map) - set(tensors))
    if lost:
        raise InputError(
            f"The index names tensors that are in no shard; fetch the shards again. Received: {lost!r}."
        )
    return tensors

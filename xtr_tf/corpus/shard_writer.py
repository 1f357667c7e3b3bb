"""Writing one shard of token vectors: aside first, with the hash of every file, then renamed.

Any process may write any shard: nothing here depends on the other shards, on the order in which
they are written, or on who else is writing the same one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

from xtr_tf.corpus.files import directory_aside, sha256_of
from xtr_tf.corpus.manifest import FileEntry, ShardEntry
from xtr_tf.corpus.shard_arrays import ARRAYS, VECTOR_DTYPES, ShardArrays
from xtr_tf.errors import InputError

ENTRY_FILE = "shard.json"
DOCUMENTS_FILE = "documents.jsonl"


def shard_name(index: int, count: int) -> str:
    """The folder of a shard, such as `shard-00000-of-00010`."""
    return f"shard-{index:05d}-of-{count:05d}"


def write_shard(
    directory: Path,
    name: str,
    arrays: ShardArrays,
    dtype: str = "float16",
    key: str = "",
    counters: Mapping[str, int] | None = None,
) -> ShardEntry:
    """Writes a shard's folder, in place of an earlier one of that name.

    Args:
        directory: The directory of token vectors.
        name: What `shard_name` gives.
        arrays: The content.
        dtype: What vectors are stored as, `float16` or `bfloat16`.
        key: Hash of everything the content was made from.
        counters: What the encoding counted.

    Returns:
        The entry for the manifest, which is also kept in the folder.
    """
    stored = stored_arrays(arrays, dtype)
    with directory_aside(directory / name) as folder:
        for array_name, array in stored.items():
            np.save(folder / f"{array_name}.npy", array, allow_pickle=False)
        with (folder / DOCUMENTS_FILE).open("w", encoding="utf-8") as file:
            file.writelines(f"{document.to_json()}\n" for document in arrays.documents)
        files = {
            path.name: FileEntry(path.stat().st_size, sha256_of(path)) for path in sorted(folder.iterdir())
        }
        entry = ShardEntry(
            name=name,
            documents=len(arrays.documents),
            passages=len(arrays.passage_tokens),
            tokens=len(arrays.vectors),
            dim=arrays.vectors.shape[1],
            dtype=dtype,
            key=key,
            files=files,
            counters=dict(counters or {}),
        )
        (folder / ENTRY_FILE).write_text(json.dumps(dataclasses.asdict(entry), indent=1))
    return entry


def read_shard_entry(directory: Path, name: str) -> ShardEntry | None:
    """The entry of a finished shard, or None if there is none that can be read."""
    try:
        return ShardEntry.from_dict(json.loads((directory / name / ENTRY_FILE).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def stored_arrays(arrays: ShardArrays, dtype: str) -> dict[str, np.ndarray]:
    """The arrays as their files hold them; bfloat16, which `.npy` does not know, as its bits."""
    if dtype not in VECTOR_DTYPES:
        raise InputError(f"Token vectors are stored as {' or '.join(VECTOR_DTYPES)}. Received: {dtype!r}.")
    if not np.isfinite(arrays.vectors).all():
        raise InputError("Token vectors must be finite; check the encoder. Received: NaN or infinity.")
    stored = {
        name: np.ascontiguousarray(getattr(arrays, name), array_type)
        for name, array_type in ARRAYS.items()
        if array_type is not None
    }
    if dtype == "float16":
        stored["vectors"] = np.ascontiguousarray(arrays.vectors, np.float16)
    else:
        stored["vectors"] = np.ascontiguousarray(arrays.vectors, ml_dtypes.bfloat16).view(np.uint16)
    return stored
